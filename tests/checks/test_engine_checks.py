"""The check that nothing died: each over a journal that violates it."""

import msgspec
import pytest

from testbed.journal.events import ComponentExited, Event, FaultApplied, KvLoadEnded, RequestEnded
from testbed.journal.manifest import ArmFacts
from testbed.journal.reader import Journal
from testbed.journal.run import Run
from tests.checks.conftest import Judge
from tests.synthetic import RUN, added, arms, changed, demo_run, event, first, with_facts

DEMO = demo_run()
ANY = f"{RUN}.tier.0.20"
STRUCK = first(DEMO, FaultApplied, "evicted", phase="began").request_id


def ended_as(request_id: str, outcome: str, reason: str) -> Run:
    """The demo, with another end of one request."""
    def end(one: Event) -> bool:
        return isinstance(one, RequestEnded) and one.request_id == request_id

    return changed(DEMO, end, outcome=outcome, reason=reason)


def under_fail(*names: str) -> list[ArmFacts]:
    """The arms of the demo, some of them under the policy `fail`."""
    return [msgspec.structs.replace(arm, policy="fail") if arm.name in names else arm for arm in arms()]


@pytest.mark.parametrize(("arm", "where"), [("tier", "arm tier"), ("", "no arm")])
def test_a_component_that_ended_by_itself_fails(judge: Judge, arm: str, where: str) -> None:
    died = event(
        ComponentExited, 1250.0, arm, component="colocated/engine-0", exit_status=-9, expected=False,
    )
    found = judge("engine_lived", added(DEMO, died))
    assert found is not None
    assert (found.status, found.text) == ("FAIL", "1 component ended unasked")
    assert found.evidence == (f"colocated/engine-0 ended in {where}, exit status -9",)


def test_a_component_that_we_ended_is_fine(judge: Judge) -> None:
    asked = event(ComponentExited, 3000.0, component="colocated/engine-0", exit_status=0, expected=True)
    found = judge("engine_lived", added(DEMO, asked))
    assert found is not None
    assert (found.status, found.text) == ("PASS", "no component ended, no request failed without a cause")


@pytest.mark.parametrize("request_id", [ANY, STRUCK])
def test_a_failed_request_under_recompute_has_no_cause_in_any_fault(judge: Judge, request_id: str) -> None:
    found = judge("engine_lived", ended_as(request_id, "failed", "failed/http_500"))
    assert found is not None
    assert (found.status, found.text) == ("FAIL", "1 request failed, and no fault of the arm explains it")
    assert found.evidence == (f"{request_id}: failed/http_500",)


def test_a_request_that_timed_out_did_not_fail(judge: Judge) -> None:
    found = judge("engine_lived", ended_as(ANY, "timed_out", "timed_out/total"))
    assert found is not None
    assert found.status == "PASS"


def test_the_policy_fail_explains_what_a_failed_load_did_and_nothing_else(judge: Judge) -> None:
    # of the arms under `fail`, `evicted` has a fault that hurts requests, and `tier` has none
    hurt = with_facts(ended_as(STRUCK, "failed", "failed/http_500"), arms=under_fail("evicted"))
    spared = with_facts(ended_as(ANY, "failed", "failed/http_500"), arms=under_fail("tier"))
    late = changed(
        spared, lambda one: isinstance(one, KvLoadEnded) and one.request_id == ANY, ok=False, reason="deadline",
    )
    assert any(one.request_id == ANY for one in late.journal.select(KvLoadEnded))
    found = [judge("engine_lived", run) for run in (hurt, spared, late)]
    assert [one and one.status for one in found] == ["PASS", "FAIL", "PASS"]


def test_a_run_of_which_nothing_is_known_is_unknown(judge: Judge) -> None:
    found = judge("engine_lived", Run(DEMO.manifest, Journal(()), {}))
    assert found is not None
    assert found.status == "UNKNOWN"
