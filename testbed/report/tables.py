"""The tables of a report: numbers by arm, checks with evidence, loads against their bounds."""

from collections import Counter

from testbed.checks.runner import CHECKS
from testbed.checks.verdict import Verdict
from testbed.metrics.analysis import Analysis
from testbed.metrics.goodput import CAUSES, GOOD, NO_LIMITS, lost_by_cause
from testbed.metrics.loads import Load
from testbed.metrics.outcomes import INTERRUPTED, OUTCOMES, count_outcomes
from testbed.metrics.statistics import statistic
from testbed.metrics.table import Row, declared_metrics
from testbed.metrics.views import ALL_CLASSES
from testbed.missing import Missing
from testbed.report.content import Cell, Section, Table, Text, row
from testbed.report.wording import cell, number

PLAIN = ("rate", "share")
BY_CLASS = (
    ("ttft_s", "p50"), ("ttft_s", "p95"), ("tpot_s", "p50"), ("itl_s", "p95"), ("e2e_s", "p50"),
    ("goodput_ratio", "share"),
)
OF_ALL = (
    ("goodput_rps", "rate"), ("offered_rps", "rate"), ("sent_rps", "rate"), ("finished_rps", "rate"),
    ("output_tokens_per_s", "rate"), ("prompt_tokens", "total"), ("local_tokens", "total"), ("loaded_tokens", "total"),
    ("computed_tokens", "total"), ("promised_tokens", "total"), ("lost_tokens", "total"),
    ("recomputed_after_failure_tokens", "total"), ("recomputed_after_preemption_tokens", "total"),
    ("recomputed_last_tokens", "total"), ("load_s", "p50"), ("transfer_s", "p50"), ("send_lag_s", "p95"),
)
OF_LOAD = (
    ("goodput_rps", "rate"), ("offered_rps", "rate"), ("sent_rps", "rate"), ("finished_rps", "rate"),
    ("output_tokens_per_s", "rate"), ("ttft_sent_s", "p50"), ("send_lag_s", "p95"),
)


def numbers_section(analysis: Analysis, rows: list[Row]) -> Section:
    """The numbers of each arm side by side, each with its n, unit and interval."""
    found = {(one.metric, one.traffic_class, one.arm, one.statistic): one for one in rows}
    wanted = [(metric, name, kind) for metric, kind in BY_CLASS for name in analysis.classes]
    of_all = OF_ALL if analysis.run.manifest.load is None else OF_LOAD
    wanted += [(metric, ALL_CLASSES, kind) for metric, kind in of_all]
    arms = [arm.name for arm in analysis.arms]
    table = Table(
        "Each number with its 95 % interval and n; percentiles are linear at rank (n-1)q", ("metric", *arms),
        tuple(_numbers(found, key, arms) for key in wanted),
    )
    used = {metric for metric, _, _ in wanted}
    meanings = Table(
        "What the numbers mean", ("metric", "meaning"),
        tuple(row(one.name, one.meaning) for one in declared_metrics() if one.name in used), numeric=False,
    )
    return Section("Numbers", (_counts_table(analysis), table, meanings))


def _counts_table(analysis: Analysis) -> Table:
    """How the planned requests ended, and what each request that was not good was lost to."""
    views = {arm.name: analysis.arm_view(arm) for arm in analysis.arms}
    ends = {arm: count_outcomes(one.row for one in view.requests) for arm, view in views.items()}
    lost = {arm: lost_by_cause(view) for arm, view in views.items()}
    outcomes = [*OUTCOMES, *([INTERRUPTED] if any(count[INTERRUPTED] for count in ends.values()) else [])]
    causes = [name for name in (GOOD, NO_LIMITS, *CAUSES) if any(count[name] for count in lost.values())]
    rows = tuple(
        row(arm, str(len(view.requests)), *(str(ends[arm][name]) for name in outcomes), *_causes(lost[arm], causes))
        for arm, view in views.items()
    )
    head = ("arm", "planned", *outcomes, "of these good", *(f"lost: {name}" for name in causes if name != GOOD))
    return Table("How the requests ended, and why some were not good", head, rows)


def _causes(lost: Counter[str], causes: list[str]) -> list[str]:
    return [str(lost[GOOD]), *(str(lost[name]) for name in causes if name != GOOD)]


def _numbers(
    found: dict[tuple[str, str, str, str], Row], key: tuple[str, str, str], arms: list[str],
) -> tuple[Cell, ...]:
    metric, traffic_class, kind = key
    cells = [found[metric, traffic_class, arm, kind] for arm in arms]
    told = ["" if traffic_class == ALL_CLASSES else traffic_class, "" if kind in PLAIN else kind]
    notes = sorted({one.note for one in cells})
    name = Cell(metric, ", ".join(one for one in (*told, *notes) if one))
    biggest = max((abs(one.value) for one in cells if not isinstance(one.value, Missing)), default=1.0)
    return (name, *(Cell(*cell(one, biggest)) for one in cells))


def checks_section(verdicts: list[Verdict]) -> Section:
    """Every check that applies, with what it saw."""
    asks = {check.name: check.asks for check in CHECKS}
    rows = tuple(
        row(
            Cell(one.check, asks.get(one.check, "")), Cell(one.status, mark=one.status),
            Cell(one.text, "\n".join(one.evidence)),
        )
        for one in verdicts
    )
    silent = [check.name for check in CHECKS if check.name not in {one.check for one in verdicts}]
    told = f"Do not apply to this run: {', '.join(silent)}." if silent else "All checks apply to this run."
    head = ("check", "verdict", "what it saw")
    return Section("Checks", (Table("Checks and their evidence", head, rows, numeric=False), Text(told)))


def bounds_section(analysis: Analysis) -> Section:
    """Loads that ended well against the least time of their path."""
    loads = [load for load in analysis.loads if load.ok]
    title = "Loads and their bounds"
    if not loads:
        return Section(title, (Text("No load ended well, so there is nothing to hold against a bound."),))
    head = (
        "path", "loads", "bytes, p50", "transfer, p50", "calibrated bound, p50", "÷ calibrated, p50",
        "÷ calibrated, least", "÷ nominal, p50",
    )
    paths = sorted({load.path for load in loads})
    rows = tuple(_path(path, [load for load in loads if load.path == path]) for path in paths)
    sources = tuple(
        f"{path.path}: best of {path.tries}, {path.source}; " + _spread(path.spread_ratio)
        for path in analysis.run.manifest.paths
    )
    return Section(title, (
        Table("Transfer time over the least time that the bytes need", head, rows),
        *(Text(source) for source in sources),
    ))


def _spread(spread: float | None) -> str:
    return "its spread is not known" if spread is None else f"the median try was {spread:.0%} below the best"


def _path(path: str, loads: list[Load]) -> tuple[Cell, ...]:
    calibrated = [load.over_calibrated for load in loads]
    known = [value for value in calibrated if not isinstance(value, Missing)]
    least = min(known) if known else calibrated[0]
    return row(
        path, str(len(loads)), number(statistic([float(load.load_bytes) for load in loads], "p50"), "B"),
        number(_median([load.transfer_s for load in loads]), "s"),
        number(_median([load.calibrated_bound_s for load in loads]), "s"),
        number(_median(calibrated)), number(least), number(_median([load.over_nominal for load in loads])),
    )


def _median(values: list[float | Missing]) -> float | Missing:
    known = [value for value in values if not isinstance(value, Missing)]
    missing = next((value for value in values if isinstance(value, Missing)), None)
    return missing if missing is not None and not known else statistic(known, "p50")
