"""Checks of outcomes, answers, and the client: each over a journal that violates it."""

from functools import partial

import msgspec
import pytest

from testbed.journal.events import ArmEnded, Event, RequestEnded, RequestSent, TierReset
from testbed.journal.manifest import Limits
from testbed.journal.reader import read_journal
from testbed.journal.run import Run
from tests.checks.conftest import Judge
from tests.synthetic import added, changed, demo_run, event, first, with_facts, without

DEMO = demo_run()
DUE = "demo-20260101-120000.tier.0.20"


def is_end_of(request_id: str, one: Event) -> bool:
    """True for the end of this request."""
    return isinstance(one, RequestEnded) and one.request_id == request_id


def same(one: Event, other: Event) -> bool:
    """True for the very same event."""
    return one is other


def test_a_request_without_an_end_fails(judge: Judge) -> None:
    found = judge("outcomes_add_up", without(DEMO, lambda one: is_end_of(DUE, one)))
    assert found is not None
    assert (found.status, found.evidence) == ("FAIL", (f"{DUE} has no end",))


def test_a_request_without_an_end_is_unknown_in_a_run_that_was_broken_off(judge: Judge) -> None:
    cut = with_facts(without(DEMO, lambda one: is_end_of(DUE, one)), status="interrupted")
    found = judge("outcomes_add_up", cut)
    assert found is not None
    assert found.status == "UNKNOWN"


def test_a_request_that_ended_twice_fails(judge: Judge) -> None:
    twice = event(RequestEnded, 1e4, request_id=DUE, outcome="failed", reason="", scheduled_at_ns=1, ended_at_ns=2)
    found = judge("outcomes_add_up", added(DEMO, twice))
    assert found is not None
    assert (found.status, found.evidence) == ("FAIL", (f"{DUE} ended 2 times",))


def test_a_seventh_outcome_fails(judge: Judge) -> None:
    found = judge("outcomes_add_up", changed(DEMO, lambda one: is_end_of(DUE, one), outcome="fine"))
    assert found is not None
    assert (found.status, found.evidence) == ("FAIL", (f"{DUE} ended as 'fine'",))


def test_a_wrong_answer_fails_and_names_its_first_token(judge: Judge) -> None:
    ids = list(first(DEMO, RequestEnded, "tier", request_id=DUE).token_ids)
    ids[3] = 499_999
    found = judge("outputs_golden", changed(DEMO, lambda one: is_end_of(DUE, one), token_ids=ids))
    assert found is not None
    assert found.status == "FAIL"
    assert f"{DUE}: wrong at output token 3: id 499999 instead of" in found.evidence[0]


def test_an_answer_without_its_golden_one_is_unknown(judge: Judge) -> None:
    golden = {key: answer for key, answer in DEMO.golden.items() if key != "chat0"}
    found = judge("outputs_golden", Run(DEMO.manifest, DEMO.journal, golden))
    assert found is not None
    assert found.status == "UNKNOWN"
    assert len(found.evidence) == 5  # the same chat in five arms


def test_more_near_ties_than_without_a_tier_fail(judge: Judge) -> None:
    # 0 of 54 without a tier: at most 3.84 / 57.84 = 6.6 % by chance; 6 of 54 are 11 %
    run = DEMO
    for index in range(20, 26):
        one = first(DEMO, RequestEnded, "tier", request_id=f"demo-20260101-120000.tier.0.{index}")
        run = changed(run, partial(same, one), token_ids=[*one.token_ids[:9], 501])
    found = judge("outputs_golden", run)
    assert found is not None
    assert found.status == "FAIL"
    assert "arm tier: 6 of 54; arm no_tier: 0 of 54, at most 0.066 by chance" in found.evidence


def test_a_late_client_is_unknown(judge: Judge) -> None:
    # each send 60 ms late, 50 are allowed
    run = DEMO
    for one in DEMO.journal.select(RequestSent, "tier"):
        run = changed(run, partial(same, one), sent_at_ns=one.scheduled_at_ns + 60_000_000)
    found = judge("client_in_time", run)
    assert found is not None
    assert found.status == "UNKNOWN"
    assert "p99 60.0 ms of n=270" in found.evidence[0]


def test_a_client_that_sent_nothing_is_unknown(judge: Judge) -> None:
    quiet = without(DEMO, lambda one: isinstance(one, RequestSent | RequestEnded))
    found = judge("client_in_time", quiet)
    assert found is not None
    assert found.status == "UNKNOWN"


@pytest.mark.parametrize("limit_s", [0.0001, 1000.0])
def test_limits_that_all_or_none_meet_tell_nothing(judge: Judge, limit_s: float) -> None:
    limits = {name: Limits(ttft_s=limit_s, tpot_s=limit_s, derivation="") for name in ("long_doc", "short_chat")}
    found = judge("limits_tell", with_facts(DEMO, limits=limits))
    assert found is not None
    assert found.status == "UNKNOWN"
    assert "the limits tell nothing" in found.text


def test_without_limits_there_is_nothing_to_tell(judge: Judge) -> None:
    assert judge("limits_tell", with_facts(DEMO, limits={})) is None


def test_a_required_metric_without_a_value_is_unknown(judge: Judge) -> None:
    found = judge("required_metrics", with_facts(DEMO, required_metrics=["transfer_over_nominal", "speed"]))
    assert found is not None
    assert found.status == "UNKNOWN"
    assert "transfer_over_nominal in arm tier: no load ended well" in found.evidence
    assert any(line.startswith("speed is not a metric") for line in found.evidence)


def test_what_was_left_behind_fails_and_is_named(judge: Judge) -> None:
    found = judge("nothing_left", with_facts(DEMO, left_behind=["process 4711 of engine-0"]))
    assert found is not None
    assert (found.status, found.evidence) == ("FAIL", ("process 4711 of engine-0",))


def test_if_nobody_looked_it_is_unknown_what_was_left(judge: Judge) -> None:
    found = judge("nothing_left", with_facts(DEMO, left_behind=None))
    assert found is not None
    assert found.status == "UNKNOWN"


def test_a_missing_event_of_a_shard_is_unknown(judge: Judge) -> None:
    lines = [msgspec.json.encode(one) + b"\n" for one in DEMO.journal.events if one.pid == 12]
    journal = read_journal([("conductor.12.jsonl", b"".join(lines[:2] + lines[3:]))])
    found = judge("journal_whole", Run(DEMO.manifest, journal, {}))
    assert found is not None
    assert found.status == "UNKNOWN"
    assert found.evidence[0] == "conductor.12.jsonl: 1 of 15 events are missing"


@pytest.mark.parametrize("drop", [True, False])
def test_an_arm_that_did_not_complete_is_unknown(judge: Judge, drop: bool) -> None:
    def end_of_tier(one: Event) -> bool:
        return isinstance(one, ArmEnded) and one.arm == "tier"

    cut = without(DEMO, end_of_tier) if drop else changed(DEMO, end_of_tier, complete=False, reason="stopped")
    found = judge("journal_whole", cut)
    assert found is not None
    assert found.status == "UNKNOWN"
    assert "arm tier" in found.evidence[0]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"proven": False, "detail": "the canary did not hit"}, "not proven: the canary did not hit"),
        ({"after_promised_tokens": 128}, "the canary still hit: local 0, promised 128"),
        ({"after_local_tokens": 16}, "the canary still hit: local 16, promised 0"),
        ({"before_promised_tokens": 0}, "the canary had not hit before"),
        ({"saves_in_flight": 2}, "2 saves were in flight"),
        ({"after_promised_tokens": None}, "the tier was not asked"),
    ],
)
def test_a_reset_that_its_numbers_do_not_prove_is_unknown(judge: Judge, fields: dict[str, object], told: str) -> None:
    found = judge("reset_proven", changed(DEMO, lambda one: isinstance(one, TierReset) and one.arm == "tier", **fields))
    assert found is not None
    assert found.status == "UNKNOWN"
    assert told in found.evidence[0]


def test_an_arm_without_a_reset_is_unknown(judge: Judge) -> None:
    found = judge("reset_proven", without(DEMO, lambda one: isinstance(one, TierReset) and one.arm == "held"))
    assert found is not None
    assert (found.status, found.evidence) == ("UNKNOWN", ("arm held, repetition 0: no reset",))
