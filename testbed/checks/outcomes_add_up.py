"""Each planned request ended exactly once, in one of the six ways."""

from testbed.checks.verdict import Finding, failed, passed, unknown
from testbed.metrics.analysis import Analysis
from testbed.metrics.outcomes import INTERRUPTED, OUTCOMES, count_outcomes


def check(analysis: Analysis) -> Finding | None:
    """A missing end is a FAIL in a complete run; in one that was broken off it is to be expected, and UNKNOWN."""
    requests = analysis.requests
    if not requests.rows:
        return unknown("no request was planned")
    counts = count_outcomes(requests.rows)
    wrong = [f"{row.request_id} ended {row.ends} times" for row in requests.rows if row.ends > 1]
    wrong += [
        f"{row.request_id} ended as {row.ended.outcome!r}" for row in requests.rows
        if row.ended is not None and row.ended.outcome not in OUTCOMES
    ]
    wrong += requests.problems
    open_ids = [f"{row.request_id} has no end" for row in requests.rows if row.ends == 0]
    sums = ", ".join(f"{name} {counts[name]}" for name in (*OUTCOMES, INTERRUPTED) if counts[name])
    if wrong or (open_ids and analysis.run.manifest.status == "complete"):
        return failed(f"{len(requests.rows)} planned: {sums}", [*wrong, *open_ids])
    if open_ids:
        return unknown(f"the run was broken off; {len(requests.rows)} planned: {sums}", open_ids)
    return passed(f"{len(requests.rows)} planned = {sums}")
