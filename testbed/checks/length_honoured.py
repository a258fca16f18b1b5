"""Every complete answer has the length that was asked for: forced ones to the token, others no more than that."""

from collections import Counter

from testbed.checks.verdict import Finding, passed, times, unknown
from testbed.metrics.analysis import Analysis
from testbed.metrics.lengths import unhonoured


def check(analysis: Analysis) -> Finding | None:
    """A rate of tokens is withheld for an arm in which this fails, so nobody compares it."""
    complete = [view.row for view in analysis.views if view.row.ok]
    if not complete:
        return None
    found = Counter((row.arm, row.traffic_class, told) for row in complete if (told := unhonoured(row)))
    if found:
        lines = [f"arm {arm}, {name}: {told} in {times(n, 'request')}" for (arm, name, told), n in found.items()]
        return unknown(f"output length not honoured in {found.total()} of {len(complete)} answers", lines)
    forced = sum(row.planned.stop == "forced" for row in complete)
    return passed(f"{len(complete)} answers have the length that was asked for, {forced} of them a forced one")
