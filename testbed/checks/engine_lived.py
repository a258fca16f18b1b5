"""Nothing of the deployment died, and no request failed unless a fault of its arm was meant to hurt it."""

from testbed.checks.verdict import Finding, failed, passed, times, unknown
from testbed.journal.events import ComponentExited
from testbed.journal.manifest import ArmFacts
from testbed.metrics.analysis import Analysis
from testbed.metrics.outcomes import outcome_of
from testbed.metrics.views import RequestView


def check(analysis: Analysis) -> Finding | None:
    """A timeout is not looked at: it tells of load, not of death."""
    ended = [event for event in analysis.run.journal.select(ComponentExited) if not event.expected]
    unexplained = _unexplained(analysis)
    texts = []
    if ended:
        texts.append(f"{times(len(ended), 'component')} ended unasked")
    if unexplained:
        texts.append(f"{times(len(unexplained), 'request')} failed, and no fault of the arm explains it")
    if texts:
        exits = [f"{one.component} ended in {_where(one.arm)}, exit status {one.exit_status}" for one in ended]
        return failed("; ".join(texts), [*exits, *unexplained])
    if all(view.row.ended is None for view in analysis.views):
        return unknown("no request has ended, so nothing shows that the engine lived")
    return passed("no component ended, no request failed without a cause")


def _where(arm: str) -> str:
    return f"arm {arm}" if arm else "no arm"


def _unexplained(analysis: Analysis) -> list[str]:
    return [
        f"{view.row.request_id}: {view.row.ended.reason}"
        for arm in analysis.arms for view in analysis.in_arm(arm.name)
        if view.row.ended is not None and outcome_of(view.row) == "failed" and not meant_to_fail(arm, view)
    ]


def meant_to_fail(arm: ArmFacts, view: RequestView) -> bool:
    """Under the policy `fail` a failed load takes its request along, and others that share its blocks."""
    if arm.policy != "fail":
        return False
    return any(fault.fails_loads for fault in arm.faults) or any(not load.ok for load in view.loads)
