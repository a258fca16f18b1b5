"""Joining the events of a request."""

from testbed.journal.events import RequestEnded, RequestPlanned, RequestSent
from testbed.metrics.requests import join_requests, prefix_of
from tests.synthetic import added, changed, demo_run, event, first, without

DEMO = demo_run()
DUE = "demo-20260101-120000.tier.0.20"


def test_each_planned_request_has_one_row() -> None:
    # 14 of fill + 28 documents + 26 chats, in each of 5 arms
    rows = join_requests(DEMO).rows
    assert len(rows) == 5 * (14 + 28 + 26)
    assert all(row.ok and row.ends == 1 for row in rows)


def test_fill_and_foreign_prefixes_are_not_measured() -> None:
    # 28 + 26 of each arm are measured
    assert sum(row.measured for row in join_requests(DEMO).rows) == 5 * 54
    canary = first(DEMO, RequestPlanned, "tier", request_id=DUE)
    moved = changed(DEMO, lambda one: one is canary, request_id="demo-20260101-120000.canary.0.20")
    assert sum(row.measured for row in join_requests(moved).rows) == 5 * 54 - 1


def test_a_request_without_an_end_keeps_its_row() -> None:
    cut = without(DEMO, lambda one: isinstance(one, RequestEnded) and one.request_id == DUE)
    row = join_requests(cut).by_id()[DUE]
    assert (row.ended, row.ends, row.ok, row.output_tokens) == (None, 0, False, None)


def test_the_first_end_counts_and_a_second_one_is_seen() -> None:
    one = first(DEMO, RequestEnded, "tier", request_id=DUE)
    row = join_requests(added(DEMO, event(
        RequestEnded, 9999.0, request_id=DUE, outcome="failed", reason="failed/reset", scheduled_at_ns=1, ended_at_ns=2,
    ))).by_id()[DUE]
    assert row.ended is one
    assert row.ends == 2


def test_an_end_that_nobody_planned_is_a_problem() -> None:
    stray = event(RequestSent, 1.0, request_id="demo-20260101-120000.tier.0.999", scheduled_at_ns=1, sent_at_ns=2)
    canary = event(RequestSent, 1.0, request_id="demo-20260101-120000.canary.0.9", scheduled_at_ns=1, sent_at_ns=2)
    assert join_requests(added(DEMO, stray, canary)).problems == ("demo-20260101-120000.tier.0.999 was never planned",)


def test_output_tokens_come_from_usage_then_chunks_then_ids() -> None:
    def tokens(**fields: object) -> int | None:
        run = changed(DEMO, lambda one: isinstance(one, RequestEnded) and one.request_id == DUE, **fields)
        return join_requests(run).by_id()[DUE].output_tokens

    assert tokens(usage_output_tokens=17, chunk_tokens=[1, 2], token_ids=[1]) == 17
    assert tokens(usage_output_tokens=None, chunk_tokens=[1, 2], token_ids=[1]) == 3
    assert tokens(usage_output_tokens=None, chunk_tokens=[], token_ids=[1]) == 1
    assert tokens(usage_output_tokens=None, chunk_tokens=[], token_ids=[]) is None


def test_the_prefix_of_an_id_is_its_second_part_also_after_a_run_with_dots() -> None:
    assert prefix_of("a.b.tier.0.1", "a.b") == "tier"
    assert prefix_of("other.canary.0.1", "a.b") == "canary"
