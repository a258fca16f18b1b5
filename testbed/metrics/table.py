"""The summary table of a run: every declared metric, by traffic class and arm."""

from collections.abc import Iterator
from dataclasses import dataclass

from testbed.journal.manifest import ArmFacts
from testbed.journal.run import Run
from testbed.metrics.analysis import Analysis
from testbed.metrics.attainment import ATTAINMENT_METRICS
from testbed.metrics.declaration import ArmMetric, Metric, RequestMetric
from testbed.metrics.fidelity import FIDELITY_METRICS
from testbed.metrics.goodput import GOODPUT_METRICS
from testbed.metrics.hits import HIT_METRICS
from testbed.metrics.latency import LATENCY_METRICS
from testbed.metrics.load_times import LOAD_METRICS
from testbed.metrics.outcomes import OUTCOME_METRICS
from testbed.metrics.recompute import RECOMPUTE_METRICS
from testbed.metrics.statistics import interval, seed_of, statistic
from testbed.metrics.throughput import THROUGHPUT_METRICS
from testbed.metrics.views import ALL_CLASSES, RequestView
from testbed.missing import Missing

UNCHECKED = "outputs unchecked"
BY_LIMITS = frozenset({"goodput_ratio", "goodput_rps", "attainment_ratio"})


@dataclass(frozen=True)
class Row:
    """One number. `low` and `high` are its 95 % interval; `n` counts the samples behind it."""

    metric: str
    traffic_class: str
    arm: str
    statistic: str
    value: float | Missing
    n: int
    low: float | Missing
    high: float | Missing
    unit: str
    note: str = ""

    def as_json(self) -> dict[str, str | int | float | None]:
        """The row as strict JSON: a missing number is null, and `reason` says why."""
        return {
            "metric": self.metric, "class": self.traffic_class, "arm": self.arm, "statistic": self.statistic,
            "value": _number(self.value), "n": self.n, "low": _number(self.low), "high": _number(self.high),
            "unit": self.unit, "note": self.note,
            "reason": self.value.reason if isinstance(self.value, Missing) else "",
        }


def _number(value: float | Missing) -> float | None:
    return None if isinstance(value, Missing) else value


def declared_metrics() -> tuple[RequestMetric | ArmMetric, ...]:
    """All metrics, in the order of the table."""
    return (
        *LATENCY_METRICS, *GOODPUT_METRICS, *ATTAINMENT_METRICS, *OUTCOME_METRICS, *THROUGHPUT_METRICS,
        *RECOMPUTE_METRICS, *LOAD_METRICS, *HIT_METRICS, *FIDELITY_METRICS,
    )


def summarise(run: Run) -> list[Row]:
    """All rows of a run, by metric, class (`all` first) and arm."""
    return summarise_analysis(Analysis(run))


def summarise_analysis(analysis: Analysis) -> list[Row]:
    """`summarise` for a caller that has an analysis already."""
    return [
        row
        for metric in declared_metrics()
        for traffic_class in (ALL_CLASSES, *analysis.classes)
        for arm in analysis.arms
        for row in _rows(analysis, metric, traffic_class, arm)
    ]


def _rows(analysis: Analysis, metric: RequestMetric | ArmMetric, traffic_class: str, arm: ArmFacts) -> Iterator[Row]:
    if isinstance(metric, RequestMetric):
        values = values_of(metric, analysis.in_arm(arm.name, traffic_class))
        for name in metric.statistics:
            yield _sampled(analysis, metric, (traffic_class, arm.name, name), values)
        return
    estimate = metric.compute(analysis.arm_view(arm, traffic_class))
    note = UNCHECKED if metric.name in BY_LIMITS and not analysis.run.golden else ""
    name = metric.statistics[0]
    if isinstance(estimate, Missing):
        yield Row(metric.name, traffic_class, arm.name, name, estimate, 0, estimate, estimate, metric.unit, note)
    else:
        low, high = _bounds(estimate.interval)
        yield Row(metric.name, traffic_class, arm.name, name, estimate.value, estimate.n, low, high, metric.unit, note)


def values_of(metric: RequestMetric, views: tuple[RequestView, ...]) -> list[float] | Missing:
    """The values of all requests with one; sequences are pooled. If none has, Missing with the commonest reason."""
    values: list[float] = []
    reasons: dict[str, int] = {}
    for view in views:
        value = metric.compute(view)
        if isinstance(value, Missing):
            reasons[value.reason] = reasons.setdefault(value.reason, 0) + 1
        elif isinstance(value, tuple):
            values.extend(value)
        else:
            values.append(value)
    if len(values) >= metric.smallest_n:
        return values
    if not reasons:
        return Missing("no request of this class was planned in this arm" if not views else f"n={len(values)}")
    return Missing(max(reasons, key=lambda reason: reasons[reason]))


def _sampled(analysis: Analysis, metric: Metric, key: tuple[str, str, str], values: list[float] | Missing) -> Row:
    traffic_class, arm, name = key
    if isinstance(values, Missing):
        return Row(metric.name, traffic_class, arm, name, values, 0, values, values, metric.unit)
    value = statistic(values, name)
    seed = seed_of(analysis.run.manifest.seed, metric.name, *key)
    low, high = _bounds(value if isinstance(value, Missing) else interval(values, name, seed))
    return Row(metric.name, traffic_class, arm, name, value, len(values), low, high, metric.unit)


def _bounds(found: tuple[float, float] | Missing) -> tuple[float | Missing, float | Missing]:
    return (found, found) if isinstance(found, Missing) else found
