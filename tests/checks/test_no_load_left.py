"""A struck request of which no load was left: counted apart from the firings, and no reason to doubt the others."""

from typing import Any

import pytest

from testbed.journal.events import Event, FaultApplied, FaultFired, KvLoadBegan, KvLoadEnded, KvLookup, KvReserve
from testbed.journal.run import Run
from testbed.metrics.analysis import Analysis
from testbed.metrics.pairs import fault_costs
from tests.checks.conftest import Judge, status
from tests.synthetic import changed, demo_run, first, without

DEMO = demo_run()
STRUCK = first(DEMO, FaultApplied, "evicted", phase="began").request_id
LOAD_EVENTS = (KvReserve, KvLoadBegan, KvLoadEnded, FaultFired)


def unloaded(run: Run, struck: set[str], **lookup: Any) -> Run:
    """The run in which these requests were promised nothing after their hold, and so loaded nothing."""
    def of_load(one: Event) -> bool:
        return isinstance(one, LOAD_EVENTS) and one.request_id in struck

    def asked(one: Event) -> bool:
        return isinstance(one, KvLookup) and one.request_id in struck

    return changed(without(run, of_load), asked, promised_tokens=0, **lookup)


@pytest.mark.parametrize(
    ("lookup", "told"),
    [
        ({"reason": "deadline"}, "given up before its load: deadline"),
        ({"local_tokens": 256}, "nothing was promised any more, and 256 tokens were found in the engine"),
    ],
)
def test_a_request_that_came_to_no_load_is_told_apart_from_the_firings(
    judge: Judge, lookup: dict[str, Any], told: str
) -> None:
    found, evidence = status(judge, "fault_fired", unloaded(DEMO, {STRUCK}, **lookup))
    assert found == "PASS"
    assert f"evicted/evict: applied 8, fired 7, minimum 3; {STRUCK} {told}" in evidence


def test_too_few_firings_are_not_made_up_by_requests_without_a_load(judge: Judge) -> None:
    # 8 were struck, 6 of them came to no load: 2 firings are left, and 3 are needed
    struck = [one.request_id for one in DEMO.journal.select(FaultApplied, "evicted") if one.phase == "began"]
    found, evidence = status(judge, "fault_fired", unloaded(DEMO, set(struck[:6]), reason="deadline"))
    assert found == "UNKNOWN"
    assert "it fired 2 times, 3 are needed" in evidence


def test_a_promise_without_any_load_is_still_doubted(judge: Judge) -> None:
    def after_lookup(one: Event) -> bool:
        return isinstance(one, LOAD_EVENTS) or (isinstance(one, KvLookup) and one.attempt == 2)

    run = without(DEMO, lambda one: after_lookup(one) and getattr(one, "request_id", None) == STRUCK)
    found, evidence = status(judge, "fault_fired", run)
    assert found == "UNKNOWN"
    assert f"the load of {STRUCK} did not fail" in evidence


def test_the_cost_of_a_fault_leaves_out_what_it_missed() -> None:
    def struck(run: Run) -> int:
        return next(cost.struck for cost in fault_costs(Analysis(run)) if cost.fault == "evict")

    assert struck(unloaded(DEMO, {STRUCK}, reason="deadline")) == struck(DEMO) - 1
