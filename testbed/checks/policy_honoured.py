"""After a failed load the engine did what the policy says, and did not try again more often than allowed."""

from collections import Counter

from testbed.checks.verdict import Finding, failed, passed, times
from testbed.journal.events import ArmBegan, KvLoadBegan, KvLoadEnded
from testbed.metrics.analysis import Analysis
from testbed.metrics.outcomes import outcome_of


def check(analysis: Analysis) -> Finding | None:
    """Policy recompute: such requests end well. Policy fail: none does. The engine must have run under it.

    An engine without a probe loads nothing and says that it has no policy, so its word is not held against the plan.
    """
    arms = {arm.name: arm for arm in analysis.arms}
    wrong = [
        f"arm {event.arm} ran under policy {event.policy!r}, {arms[event.arm].policy!r} was planned"
        for event in analysis.run.journal.select(ArmBegan)
        if event.arm in arms and arms[event.arm].probed and event.policy != arms[event.arm].policy
    ]
    failures = Counter(load.request_id for load in analysis.loads if not load.ok)
    rows = analysis.requests.by_id()
    known = [rows[one] for one in failures if one in rows]
    for row in known:
        policy = arms[row.arm].policy
        if row.ok != (policy == "recompute"):
            wrong.append(f"{row.request_id} ended as {outcome_of(row)} after a failed load, under policy {policy!r}")
    wrong += _tried_too_often(analysis, {arm.name: arm.attempts for arm in analysis.arms})
    if wrong:
        return failed("the policy for failed loads was not honoured", wrong)
    if not known:
        return None
    return passed(f"{times(len(known), 'request')} had a failed load, and each was handled by the policy")


def _tried_too_often(analysis: Analysis, attempts: dict[str, int]) -> list[str]:
    failures: dict[str, int] = {}
    wrong = []
    for event in analysis.run.journal.events:
        if isinstance(event, KvLoadEnded) and not event.ok:
            failures[event.request_id] = failures.setdefault(event.request_id, 0) + 1
        elif isinstance(event, KvLoadBegan) and event.arm in attempts and event.request_id in failures:
            count = failures[event.request_id]
            if count >= attempts[event.arm]:
                allowed = times(attempts[event.arm], "attempt")
                wrong.append(f"{event.request_id} loaded again after {times(count, 'failure')}; allowed: {allowed}")
    return wrong
