"""Checks of the ledger, of loads, and of recompute: each over a journal that violates it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.checks.runner import CHECKS, check_analysis
from testbed.journal.events import (
    ArmBegan,
    FaultApplied,
    KvLoadBegan,
    KvLoadEnded,
    KvLookup,
    RequestEnded,
    StepScheduled,
)
from testbed.journal.manifest import PathRate
from testbed.journal.run import Run
from testbed.metrics.analysis import Analysis
from tests.checks.conftest import Judge, status
from tests.synthetic import RATE, added, changed, demo_run, event, first, with_facts, without

DEMO = demo_run()
STRUCK = first(DEMO, FaultApplied, "evicted", phase="began").request_id
GOOD_LOAD = first(DEMO, KvLoadEnded, "tier", ok=True)
STEPS = DEMO.journal.select(StepScheduled)


def ledger_status(run: Run) -> str:
    """Status of ledger_adds_up, for a property without fixtures."""
    only = [check for check in CHECKS if check.name == "ledger_adds_up"]
    return check_analysis(Analysis(run), only)[0].status


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
