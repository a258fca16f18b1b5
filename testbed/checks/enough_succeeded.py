"""Enough requests of each class succeeded: the latencies of a few that came through would speak of luck."""

from collections import Counter

from testbed.checks.engine_lived import meant_to_fail
from testbed.checks.verdict import Finding, passed, unknown
from testbed.journal.manifest import ArmFacts
from testbed.metrics.analysis import Analysis
from testbed.metrics.outcomes import INTERRUPTED, left
from testbed.metrics.requests import RequestRow
from testbed.metrics.views import RequestView


def check(analysis: Analysis) -> Finding | None:
    """Users who left as planned were served; requests that a fault was meant to hurt are not counted at all."""
    floor = analysis.run.manifest.success_floor_ratio
    counted = {
        f"arm {arm.name}, {name}": rows
        for arm in analysis.arms for name in analysis.classes
        if (rows := [view.row for view in analysis.in_arm(arm.name, name) if not _meant(arm, view)])
    }
    if not counted:
        return unknown("no request was planned")
    shares = {where: sum(_served(row) for row in rows) / len(rows) for where, rows in counted.items()}
    low = [f"{where}: {_failures(counted[where])}" for where, share in shares.items() if share < floor]
    if low:
        return unknown(f"not valid: fewer than {floor:.0%} of a class succeeded", low)
    return passed(f"of each class at least {min(shares.values()):.1%} succeeded, {floor:.0%} are needed")


def _served(row: RequestRow) -> bool:
    return row.ok or left(row)


def _meant(arm: ArmFacts, view: RequestView) -> bool:
    return not view.row.ok and meant_to_fail(arm, view)


def _failures(rows: list[RequestRow]) -> str:
    """How many failed, and each way in which they did, with the HTTP status."""
    causes = Counter(_cause(row) for row in rows if not _served(row))
    ways = ", ".join(f"{count} x {cause}" for cause, count in causes.most_common())
    return f"{causes.total()} of {len(rows)} failed: {ways}"


def _cause(row: RequestRow) -> str:
    if row.ended is None:
        return INTERRUPTED
    status = "" if row.ended.http_status is None else f" (HTTP {row.ended.http_status})"
    return (row.ended.reason if row.ended.reason else row.ended.outcome) + status
