"""Prefix hits: what the plan allows, and what the caches gave, by hand."""

from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from testbed.journal.events import RequestEnded, RequestPlanned
from testbed.metrics.analysis import Analysis
from testbed.metrics.hits import Hit, prefix_hits
from testbed.metrics.ledger import Ledger
from testbed.metrics.requests import RequestRow
from tests.synthetic import demo_run, event, ns


def row(index: int, hit_tokens: int | None, prompt_tokens: int = 100, **changes: Any) -> RequestRow:
    """A request due and sent at `index` seconds, with an answer of at most 16 tokens."""
    planned = {
        "index": index, "traffic_class": "c", "scheduled_at_s": float(index), "prompt_tokens": prompt_tokens,
        "max_tokens": 16, "stop": "natural", "timeout_s": 9.0, "prompt_key": "k", "measured": True,
        "hit_tokens": hit_tokens, "priority": changes.pop("priority", 0),
    }
    ended = {
        "outcome": "ok", "reason": "", "scheduled_at_ns": ns(index), "ended_at_ns": ns(index + 1),
        "sent_at_ns": ns(index), "usage_prompt_tokens": prompt_tokens,
    }
    one = f"R.tier.0.{index}"
    return RequestRow(
        event(RequestPlanned, 0.0, request_id=one, **planned), None,
        event(RequestEnded, 9.0, request_id=one, **{**ended, **changes}), 1, True,
    )


def found(tokens: int, prompt_tokens: int = 100) -> Ledger:
    """A ledger in which so many tokens came from caches, half of them from the tier."""
    return Ledger("steps", prompt_tokens, tokens - tokens // 2, tokens // 2, prompt_tokens - tokens)


def hits(*pairs: tuple[RequestRow, int], began: Mapping[int, float] | None = None) -> list[Hit]:
    """The hits of requests that found so many tokens; `began` says when the engine took each up, by its index."""
    ledgers = {one.request_id: found(tokens, one.planned.prompt_tokens) for one, tokens in pairs}
    at_ns = {f"R.tier.0.{index}": ns(at_s) for index, at_s in (began or {}).items()}
    return prefix_hits([one for one, _ in pairs], ledgers, at_ns)


def test_what_is_found_beyond_the_plan_is_foreign() -> None:
    one, other = hits((row(0, 0), 0), (row(1, 64), 96))
    assert (one.foreign_tokens, other.foreign_tokens) == (0, 32)
    assert (other.planned_tokens, other.found_tokens) == (64, 96)


def test_fewer_hits_than_planned_are_nothing_foreign() -> None:
    assert hits((row(0, 96), 32))[0].foreign_tokens == 0


def test_the_next_turn_may_hit_an_answer_that_began_as_planned() -> None:
    # the prompt of the first turn is 100 tokens; of its answer of at most 16 tokens 15 are computed: 115 may be found
    first = (row(0, 0), 0)
    inside, beyond = row(1, 100, prompt_tokens=180), row(1, 100, prompt_tokens=180)
    assert hits(first, (inside, 115))[1].foreign_tokens == 0
    assert hits(first, (beyond, 116))[1].foreign_tokens == 1


def test_a_shared_system_prompt_allows_for_no_answer() -> None:
    # both share 64 tokens, and neither prompt is a prefix of the other
    assert hits((row(0, 0), 0), (row(1, 64), 65))[1].foreign_tokens == 1


def test_an_answer_to_a_prompt_that_comes_later_is_not_allowed_for() -> None:
    assert hits((row(0, 100, prompt_tokens=180), 110), (row(1, 0), 0))[0].foreign_tokens == 10


def test_of_a_request_that_was_overtaken_nothing_can_be_said() -> None:
    # the engine began with the second, of 5 s, before the first, of 7 s: the first may have found what the second left
    pairs = (row(0, 0), 96), (row(1, 0), 0)
    first, second = hits(*pairs, began={0: 7.0, 1: 5.0})
    assert (first.overtaken, first.foreign_tokens) == (True, 0)
    assert not second.overtaken
    assert hits(*pairs, began={0: 5.0, 1: 5.0})[0].foreign_tokens == 96


def test_without_a_probe_the_engine_begins_in_the_order_of_sending() -> None:
    late = row(0, 0, sent_at_ns=ns(1.5))
    assert [one.overtaken for one in hits((late, 96), (row(1, 0), 0))] == [True, False]
    assert [one.overtaken for one in hits((row(0, 0), 96), (row(1, 0), 0))] == [False, False]


def test_without_a_probe_a_request_of_lesser_priority_may_have_been_overtaken() -> None:
    assert [one.overtaken for one in hits((row(0, 0, priority=1), 96), (row(1, 0), 0))] == [True, False]


def test_a_prompt_that_the_server_counts_otherwise_is_left_out() -> None:
    # a chat template goes around it, which all prompts share
    assert hits((row(0, 0, usage_prompt_tokens=120), 64)) == []
    assert len(hits((row(0, 0, usage_prompt_tokens=None), 0))) == 1


def test_a_request_without_a_plan_or_without_an_answer_is_left_out() -> None:
    assert hits((row(0, None), 64), (row(1, 0, outcome="failed"), 64)) == []


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=12))
def test_exactly_those_are_overtaken_before_which_a_later_one_was_begun(moments: list[tuple[int, int]]) -> None:
    rows = [row(index, 0) for index in range(len(moments))]
    began = {index: float(at_s) for index, (at_s, _) in enumerate(moments)}
    for place, one in enumerate(hits(*((one, 0) for one in rows), began=began)):
        assert one.overtaken == any(began[later] < began[place] for later in range(place + 1, len(rows)))


def test_the_hits_of_a_run_are_those_of_its_ledgers() -> None:
    analysis = Analysis(demo_run())
    assert len(analysis.hits) == 5 * 68
    for one in analysis.hits:
        ledger = analysis.ledgers.by_id[one.row.request_id]
        assert isinstance(ledger, Ledger)
        assert one.found_tokens == ledger.local + ledger.loaded
