"""Checks of loads, faults and recompute: each over a journal that violates it."""

from functools import partial

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.checks.runner import CHECKS, check_analysis
from testbed.journal.events import (
    ArmBegan,
    Event,
    FaultApplied,
    FaultArmed,
    FaultFired,
    FaultHealed,
    KvLoadBegan,
    KvLoadEnded,
    KvLookup,
    RequestEnded,
    StepScheduled,
)
from testbed.journal.manifest import ArmFacts, PathRate
from testbed.journal.run import Run
from testbed.metrics.analysis import Analysis
from tests.checks.conftest import Judge
from tests.synthetic import (
    RATE,
    added,
    arms,
    changed,
    demo_run,
    event,
    fault,
    first,
    with_facts,
    without,
)

DEMO = demo_run()
STRUCK = first(DEMO, FaultApplied, "evicted", phase="began").request_id
GOOD_LOAD = first(DEMO, KvLoadEnded, "tier", ok=True)


def arms_with(name: str, **fields: object) -> list[ArmFacts]:
    """The arms of the demo, with some facts of one replaced."""
    return [msgspec.structs.replace(arm, **fields) if arm.name == name else arm for arm in arms()]


def status(judge: Judge, check: str, run: Run) -> tuple[str, str]:
    """Status of a check, and all its evidence as one text."""
    found = judge(check, run)
    assert found is not None
    return found.status, "\n".join(found.evidence)


def is_applied_to(request_id: str, one: Event) -> bool:
    """True where a fault says that it acted on this request."""
    return isinstance(one, FaultApplied) and one.request_id == request_id


def ledger_status(run: Run) -> str:
    """Status of ledger_adds_up, for a property without fixtures."""
    only = [check for check in CHECKS if check.name == "ledger_adds_up"]
    return check_analysis(Analysis(run), only)[0].status


STEPS = DEMO.journal.select(StepScheduled)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, len(STEPS) - 1))
def test_dropping_any_single_step_fails_the_ledger(dropped: int) -> None:
    assert ledger_status(without(DEMO, lambda one: one is STEPS[dropped])) == "FAIL"


@settings(max_examples=40, deadline=None)
@given(st.integers(0, len(STEPS) - 1))
def test_a_step_whose_work_is_not_the_schedulers_sum_fails_the_ledger(index: int) -> None:
    step = STEPS[index]
    assert ledger_status(changed(DEMO, lambda one: one is step, total_tokens=step.total_tokens + 1)) == "FAIL"


def test_a_shorter_step_fails_the_ledger(judge: Judge) -> None:
    step = next(one for one in STEPS if one.work[0][2] > 1)
    request_id, start, tokens = step.work[0]
    run = changed(
        DEMO, lambda one: one is step, total_tokens=step.total_tokens - 1,
        work=[(request_id, start, tokens - 1), *step.work[1:]],
    )
    found, evidence = status(judge, "ledger_adds_up", run)
    assert found == "FAIL"
    assert request_id in evidence


def test_a_load_that_is_not_in_the_journal_fails_the_ledger(judge: Judge) -> None:
    lost = GOOD_LOAD.request_id
    quiet = without(DEMO, lambda one: isinstance(one, KvLoadBegan | KvLoadEnded) and one.request_id == lost)
    found, evidence = status(judge, "ledger_adds_up", quiet)
    assert found == "FAIL"
    assert f"{GOOD_LOAD.request_id}: positions [0, " in evidence


def test_a_probed_arm_without_steps_fails_the_ledger(judge: Judge) -> None:
    assert status(judge, "ledger_adds_up", without(DEMO, lambda one: isinstance(one, StepScheduled)))[0] == "FAIL"


def test_a_fault_that_never_fired_is_unknown(judge: Judge) -> None:
    quiet = without(DEMO, lambda one: isinstance(one, FaultApplied | FaultFired) and one.arm == "held")
    found, evidence = status(judge, "fault_fired", quiet)
    assert found == "UNKNOWN"
    assert "held/hold: it never fired" in evidence


def test_a_fault_that_fired_too_seldom_is_unknown(judge: Judge) -> None:
    run = with_facts(DEMO, arms=arms_with("evicted", faults=[fault("evict", minimum=9)]))
    found, evidence = status(judge, "fault_fired", run)
    assert found == "UNKNOWN"
    assert "evicted/evict: it fired 8 times, 9 are needed" in evidence


def test_a_fault_that_fired_where_it_was_not_applied_is_unknown(judge: Judge) -> None:
    stray = event(FaultFired, 1650.0, "evicted", fault="evict", request_id=GOOD_LOAD.request_id, evidence="gone")
    found, evidence = status(judge, "fault_fired", added(DEMO, stray))
    assert found == "UNKNOWN"
    assert f"it fired on {GOOD_LOAD.request_id}, to which it was not applied" in evidence


def test_a_hold_that_nothing_outside_shows_is_unknown(judge: Judge) -> None:
    # the request is scheduled right after the hold was said to begin
    held = first(DEMO, FaultApplied, "held", phase="began")
    early = event(
        StepScheduled, held.at_ns / 1e9 + 0.01, "held", step=10**6, total_tokens=1, work=[(held.request_id, 0, 1)],
    )
    found, evidence = status(judge, "fault_fired", added(DEMO, early))
    assert found == "UNKNOWN"
    assert f"it was applied to {held.request_id}, and nothing outside shows it" in evidence


def test_the_gauge_of_the_whole_engine_does_not_show_that_one_request_was_held(judge: Judge) -> None:
    # the gauge was above 0, and the client's TTFT above the hold; yet the scheduler ran the request at once
    held = first(DEMO, FaultApplied, "held", phase="began")
    at_s = held.at_ns / 1e9
    early = event(StepScheduled, at_s + 0.01, "held", step=10**6, total_tokens=1, work=[(held.request_id, 0, 1)])
    gauge = event(FaultFired, at_s + 5, "held", fault="hold", request_id=held.request_id, evidence="1 deferred")
    found, evidence = status(judge, "fault_fired", added(DEMO, early, gauge))
    assert found == "UNKNOWN"
    assert f"it was applied to {held.request_id}, and nothing outside shows it" in evidence
    assert "held/hold: applied 8, fired 7, minimum 3; the target showed 1" in evidence


def test_a_hold_that_only_a_gauge_shows_never_fired(judge: Judge) -> None:
    nobody = event(FaultFired, 1450.0, "held", fault="hold", request_id=None, evidence="1 deferred")
    blind = without(DEMO, lambda one: isinstance(one, StepScheduled) and one.arm == "held")
    found, evidence = status(judge, "fault_fired", added(blind, nobody))
    assert found == "UNKNOWN"
    assert "held/hold: it never fired" in evidence


def test_a_hold_that_the_target_shows_elsewhere_is_unknown(judge: Judge) -> None:
    spared = first(DEMO, KvLoadEnded, "held").request_id
    stray = event(FaultFired, 1450.0, "held", fault="hold", request_id=spared, evidence="1 deferred")
    found, evidence = status(judge, "fault_fired", added(DEMO, stray))
    assert found == "UNKNOWN"
    assert f"it fired on {spared}, to which it was not applied" in evidence


def test_a_struck_load_that_failed_for_another_reason_is_unknown(judge: Judge) -> None:
    # all eight evicted loads ran into their deadline: the engine recovered, but not from what the fault did
    late = changed(
        without(DEMO, lambda one: isinstance(one, FaultFired)),
        lambda one: isinstance(one, KvLoadEnded) and one.arm == "evicted" and not one.ok, reason="deadline",
    )
    found, evidence = status(judge, "fault_fired", late)
    assert found == "UNKNOWN"
    assert f"the load of {STRUCK} failed for deadline, not load_error" in evidence
    assert "evicted/evict: it never fired" in evidence


def test_a_manifest_that_names_no_reason_takes_any_failure(judge: Judge) -> None:
    late = changed(DEMO, lambda one: isinstance(one, KvLoadEnded) and one.request_id == STRUCK, reason="deadline")
    run = with_facts(late, arms=arms_with("evicted", faults=[fault("evict", fail_reason="")]))
    assert status(judge, "fault_fired", run)[0] == "PASS"


def test_a_load_that_its_fault_did_not_fail_is_unknown(judge: Judge) -> None:
    run = changed(
        DEMO, lambda one: isinstance(one, KvLoadEnded) and one.request_id == STRUCK,
        ok=True, failed_blocks=0, reason="",
    )
    found, evidence = status(judge, "fault_fired", run)
    assert found == "UNKNOWN"
    assert f"the load of {STRUCK} did not fail" in evidence


def test_a_failed_load_to_which_nothing_was_applied_is_unknown(judge: Judge) -> None:
    spared = next(
        one for one in DEMO.journal.select(KvLoadEnded, "evicted") if one.ok
    )
    run = changed(DEMO, lambda one: one is spared, ok=False, reason="load_error", failed_blocks=spared.blocks)
    found, evidence = status(judge, "fault_fired", run)
    assert found == "UNKNOWN"
    assert f"the load of {spared.request_id} failed (load_error), and nothing was applied to it" in evidence


@pytest.mark.parametrize("verified", [None, False])
def test_a_fault_that_was_not_taken_back_and_verified_is_unknown(judge: Judge, verified: bool | None) -> None:
    def healed(one: Event) -> bool:
        return isinstance(one, FaultHealed) and one.arm == "evicted"

    run = without(DEMO, healed) if verified is None else changed(DEMO, healed, verified=verified)
    found, evidence = status(judge, "fault_fired", run)
    assert found == "UNKNOWN"
    told = "it was never taken back" if verified is None else "it was taken back, but no canary was served afterwards"
    assert told in evidence


@pytest.mark.parametrize("verified", [None, False])
def test_a_fault_is_taken_back_in_each_repetition(judge: Judge, verified: bool | None) -> None:
    # the journal of two repetitions: the heal of the first is missing or not verified, that of the second is there
    heal = first(DEMO, FaultHealed, "evicted")
    later = [msgspec.structs.replace(one, repetition=1) for one in (first(DEMO, FaultArmed, "evicted"), heal)]
    both = added(DEMO, *later)
    assert status(judge, "fault_fired", both)[0] == "PASS"
    if verified is None:
        run = without(both, lambda one: one is heal)
    else:
        run = changed(both, lambda one: one is heal, verified=verified, detail="no hit")
    found, evidence = status(judge, "fault_fired", run)
    assert found == "UNKNOWN"
    told = "it was never taken back" if verified is None else "it was taken back, but no canary was served afterwards"
    assert f"evicted/evict: repetition 0: {told}" in evidence


def test_a_fault_in_an_arm_without_faults_is_unknown(judge: Judge) -> None:
    stray = event(FaultApplied, 1250.0, "tier", fault="hold", request_id=STRUCK, stage="lookup", phase="began")
    found, evidence = status(judge, "fault_fired", added(DEMO, stray))
    assert found == "UNKNOWN"
    assert "tier/hold: applied to 1 requests, but the arm has no such fault" in evidence


def test_a_fault_that_was_never_armed_or_not_as_often_as_intended_is_unknown(judge: Judge) -> None:
    def armed(one: Event) -> bool:
        return isinstance(one, FaultArmed) and one.arm == "evicted"

    assert "it was never armed" in status(judge, "fault_fired", without(DEMO, armed))[1]
    assert "intended 2 times, applied 8 times" in status(judge, "fault_fired", changed(DEMO, armed, intended=2))[1]


def test_an_experiment_without_faults_has_none_to_fire(judge: Judge) -> None:
    calm = without(DEMO, lambda one: isinstance(one, FaultApplied))
    assert judge("fault_fired", with_facts(calm, arms=arms()[:2])) is None


def test_lost_tokens_that_nobody_computed_fail(judge: Judge) -> None:
    # the first step after the failure is not in the journal
    step = next(
        one for one in DEMO.journal.select(StepScheduled, "evicted") if any(work[0] == STRUCK for work in one.work)
    )
    found, evidence = status(judge, "recompute_as_predicted", without(DEMO, lambda one: one is step))
    assert found == "FAIL"
    assert STRUCK in evidence


def test_a_promise_beyond_the_prompt_can_not_be_recomputed(judge: Judge) -> None:
    asked = first(DEMO, KvLookup, "evicted", request_id=STRUCK, attempt=1)
    run = changed(DEMO, lambda one: one is asked, promised_tokens=asked.prompt_tokens + 128)
    assert status(judge, "recompute_as_predicted", run)[0] == "FAIL"


def test_a_run_without_failed_loads_predicts_nothing(judge: Judge) -> None:
    assert judge("recompute_as_predicted", without(DEMO, lambda one: one.arm in ("evicted", "timeouts"))) is None


def test_a_request_lost_to_a_failed_load_under_recompute_fails(judge: Judge) -> None:
    run = changed(
        DEMO, lambda one: isinstance(one, RequestEnded) and one.request_id == STRUCK,
        outcome="failed", reason="failed/http_500",
    )
    found, evidence = status(judge, "policy_honoured", run)
    assert found == "FAIL"
    assert f"{STRUCK} ended as failed after a failed load, under policy 'recompute'" in evidence


def test_a_second_load_after_the_only_attempt_fails(judge: Judge) -> None:
    again = event(
        KvLoadBegan, 1790.0, "evicted", request_id=STRUCK, attempt=2, blocks=4, load_bytes=1, path="memory",
    )
    found, evidence = status(judge, "policy_honoured", added(DEMO, again))
    assert found == "FAIL"
    assert f"{STRUCK} loaded again after 1 failure; allowed: 1 attempt" in evidence


def test_an_engine_under_another_policy_fails(judge: Judge) -> None:
    run = changed(DEMO, lambda one: isinstance(one, ArmBegan) and one.arm == "tier", policy="fail")
    found, evidence = status(judge, "policy_honoured", run)
    assert found == "FAIL"
    assert "arm tier ran under policy 'fail', 'recompute' was planned" in evidence


def test_an_arm_without_a_probe_has_no_policy_in_force(judge: Judge) -> None:
    began = first(DEMO, ArmBegan, "no_tier")
    assert (began.probed, began.policy) == (False, "none")
    assert status(judge, "policy_honoured", DEMO)[0] == "PASS"
    none = changed(DEMO, lambda one: isinstance(one, ArmBegan) and one.arm == "tier", policy="none")
    assert "arm tier ran under policy 'none'" in status(judge, "policy_honoured", none)[1]


def test_a_load_used_after_its_deadline_fails(judge: Judge) -> None:
    # first asked 2.5 s before its end, and 2 s are allowed
    run = changed(
        DEMO, lambda one: isinstance(one, KvLookup) and one.request_id == GOOD_LOAD.request_id,
        first_asked_at_ns=GOOD_LOAD.at_ns - 2_500_000_000,
    )
    found, evidence = status(judge, "deadline_kept", run)
    assert found == "FAIL"
    assert "ended well 2.500 s after its lookup, the deadline is 2 s" in evidence


@pytest.mark.parametrize(("share", "expected"), [(0.95, "PASS"), (0.85, "FAIL")])
def test_a_load_faster_than_the_calibrated_bound_beyond_its_spread_fails(
    judge: Judge, share: float, expected: str,
) -> None:
    # the spread of the calibration is 0.1: 0.95 of the bound may be chance, 0.85 may not
    run = changed(DEMO, lambda one: one is GOOD_LOAD, transfer_s=GOOD_LOAD.load_bytes / RATE * share)
    assert status(judge, "load_bound", run)[0] == expected


def test_a_load_faster_than_the_nominal_bound_fails(judge: Judge) -> None:
    # loads take 1.4 to 1.8 times bytes / RATE; a data sheet of 0.5 x RATE would need 2 times that
    nominal = PathRate(
        path="memory", nominal_bytes_per_s=RATE / 2, calibrated_bytes_per_s=RATE, spread_ratio=0.1, tries=10, source="",
    )
    found, evidence = status(judge, "load_bound", with_facts(DEMO, paths=[nominal]))
    assert found == "FAIL"
    assert "of the nominal time of memory" in evidence


def test_loads_that_no_bound_holds_are_unknown(judge: Judge) -> None:
    assert status(judge, "load_bound", with_facts(DEMO, paths=[]))[0] == "UNKNOWN"
    hidden = changed(DEMO, lambda one: isinstance(one, KvLoadEnded), transfer_s=None)
    found, evidence = status(judge, "load_bound", hidden)
    assert (found, evidence) == ("UNKNOWN", "the connector does not show it")


def test_a_run_without_loads_has_no_bound_and_no_deadline(judge: Judge) -> None:
    bare = without(DEMO, lambda one: one.arm != "no_tier")
    assert judge("load_bound", bare) is None
    assert judge("deadline_kept", bare) is None


def test_a_control_with_a_failed_load_is_not_clean(judge: Judge) -> None:
    load = first(DEMO, KvLoadEnded, "held")
    run = changed(DEMO, lambda one: one is load, ok=False, reason="load_error")
    found, evidence = status(judge, "control_clean", run)
    assert found == "UNKNOWN"
    assert "held, control of evicted: 1 load failed in it" in evidence


def test_a_control_with_other_holds_is_not_clean(judge: Judge) -> None:
    run = with_facts(DEMO, arms=arms_with("held", faults=[fault("hold", hold_s=3.0)]))
    assert status(judge, "control_clean", run)[0] == "UNKNOWN"
    quiet = without(DEMO, lambda one: isinstance(one, FaultApplied) and one.arm == "held")
    assert "nothing was held in it" in status(judge, "control_clean", quiet)[1]


def test_a_control_that_does_not_exist_is_not_clean(judge: Judge) -> None:
    found, evidence = status(judge, "control_clean", with_facts(DEMO, arms=arms_with("evicted", control="nobody")))
    assert found == "UNKNOWN"
    assert "there is no such arm" in evidence


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"tier": "disk"}, "its tier is 'disk', the arm's is 'memory'"),
        ({"policy": "fail"}, "its policy is 'fail', the arm's is 'recompute'"),
        ({"attempts": 2}, "its attempts is 2, the arm's is 1"),
        ({"load_deadline_s": 3.0}, "its load_deadline_s is 3.0, the arm's is 2.0"),
        ({"settings": {"engine.max_num_seqs": 4}}, "its settings is {'engine.max_num_seqs': 4}, the arm's is {}"),
    ],
)
def test_a_control_that_differs_by_more_than_the_fault_is_not_clean(
    judge: Judge, fields: dict[str, object], told: str,
) -> None:
    found, evidence = status(judge, "control_clean", with_facts(DEMO, arms=arms_with("held", **fields)))
    assert found == "UNKNOWN"
    assert f"held, control of evicted: {told}" in evidence


@pytest.mark.parametrize(("shared", "expected"), [(2, "UNKNOWN"), (3, "PASS")])
def test_a_control_that_struck_other_requests_is_not_clean(judge: Judge, shared: int, expected: str) -> None:
    # both arms struck the same 8; in the control, all but `shared` of them now name requests that were spared
    struck = [one.request_id for one in DEMO.journal.select(FaultApplied, "held") if one.phase == "began"]
    spared = [one.request_id for one in DEMO.journal.select(RequestEnded, "held") if one.request_id not in struck]
    run = DEMO
    for old, new in zip(struck[shared:], spared, strict=False):
        run = changed(run, partial(is_applied_to, old), request_id=new)
    found, evidence = status(judge, "control_clean", run)
    assert found == expected
    assert ("evicted and its control struck other requests: 2 of 8 struck in both" in evidence) is (shared == 2)


def test_two_held_requests_are_enough_where_no_more_were_held(judge: Judge) -> None:
    struck = [one.request_id for one in DEMO.journal.select(FaultApplied, "evicted") if one.phase == "began"]
    few = without(DEMO, lambda one: isinstance(one, FaultApplied) and one.request_id in struck[2:])
    assert status(judge, "control_clean", few)[0] == "PASS"
