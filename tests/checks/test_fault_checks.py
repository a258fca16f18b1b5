"""Checks of faults and of their controls: each over a journal that violates it."""

from functools import partial

import msgspec
import pytest

from testbed.journal.events import (
    Event,
    FaultApplied,
    FaultArmed,
    FaultFired,
    FaultHealed,
    KvLoadEnded,
    RequestEnded,
    StepScheduled,
)
from testbed.journal.manifest import ArmFacts
from tests.checks.conftest import Judge, status
from tests.synthetic import added, arms, changed, demo_run, event, fault, first, with_facts, without

DEMO = demo_run()
STRUCK = first(DEMO, FaultApplied, "evicted", phase="began").request_id
GOOD_LOAD = first(DEMO, KvLoadEnded, "tier", ok=True)


def arms_with(name: str, **fields: object) -> list[ArmFacts]:
    """The arms of the demo, with some facts of one replaced."""
    return [msgspec.structs.replace(arm, **fields) if arm.name == name else arm for arm in arms()]


def is_applied_to(request_id: str, one: Event) -> bool:
    """True where a fault says that it acted on this request."""
    return isinstance(one, FaultApplied) and one.request_id == request_id


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
