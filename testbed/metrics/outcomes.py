"""How requests ended: each in exactly one of six ways, or not at all where a run was broken off."""

from collections import Counter
from collections.abc import Callable, Iterable

from testbed.metrics.declaration import ArmMetric, Estimate
from testbed.metrics.requests import RequestRow
from testbed.metrics.views import ArmView
from testbed.missing import Missing

OUTCOMES = ("ok", "failed", "timed_out", "cancelled", "rejected", "not_sent")
INTERRUPTED = "interrupted"
LEFT = "cancelled/left"
NOT_SENT_INTERRUPTED = "not_sent/interrupted"
COUNT = Missing("a count, not a sample")


def outcome_of(row: RequestRow) -> str:
    """One of the six outcomes, or `interrupted` for a request whose end nobody saw."""
    return INTERRUPTED if row.ended is None else row.ended.outcome


def left(row: RequestRow) -> bool:
    """The user went away in the middle of the answer, as planned."""
    return row.ended is not None and (row.ended.outcome, row.ended.reason) == ("cancelled", LEFT)


def broken_off(row: RequestRow) -> bool:
    """The run or the user broke it off, or nobody saw its end: nothing is known of what would have come of it."""
    if row.ended is None or row.ended.outcome == "cancelled":
        return True
    return row.ended.reason == NOT_SENT_INTERRUPTED


def count_outcomes(rows: Iterable[RequestRow]) -> Counter[str]:
    """How many requests ended in each way."""
    return Counter(outcome_of(row) for row in rows)


def _counted(outcome: str) -> Callable[[ArmView], Estimate | Missing]:
    def compute(view: ArmView) -> Estimate | Missing:
        counts = count_outcomes(one.row for one in view.requests)
        return Estimate(counts[outcome], len(view.requests), COUNT)
    return compute


def _planned(view: ArmView) -> Estimate | Missing:
    return Estimate(len(view.requests), len(view.requests), COUNT)


OUTCOME_METRICS = (
    ArmMetric(
        name="planned_count", unit="requests", better="neither", needs=("request_planned",), statistics=("count",),
        meaning="measured requests of the plan", compute=_planned,
    ),
    *(
        ArmMetric(
            name=f"{outcome}_count", unit="requests", better="higher" if outcome == "ok" else "lower",
            needs=("request_planned", "request_ended"), statistics=("count",),
            meaning=f"requests that ended as {outcome}", compute=_counted(outcome),
        )
        for outcome in (*OUTCOMES, INTERRUPTED)
    ),
)
