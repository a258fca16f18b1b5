"""The summary of a load for a terminal: what came of the requests, how fast, by class, and if it may be believed."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from testbed.checks.runner import exit_code
from testbed.checks.verdict import Verdict
from testbed.metrics.analysis import Analysis
from testbed.metrics.outcomes import INTERRUPTED, OUTCOMES, count_outcomes
from testbed.metrics.table import Row
from testbed.metrics.views import ALL_CLASSES
from testbed.missing import Missing
from testbed.report.summary import verdict_line
from testbed.report.wording import figure_number

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

STATISTICS = ("mean", "p50", "p95", "p99")
LATENCIES = (
    ("ttft_s", "TTFT, from the schedule"), ("ttft_sent_s", "TTFT, from sending"), ("tpot_s", "TPOT"), ("itl_s", "ITL"),
    ("e2e_s", "whole answer"), ("send_lag_s", "send lag"),
)
REASONS_SHOWN = 8
STAND_IN = "This was our own stand-in server: no number below is a result."

Rows = dict[tuple[str, str, str], Row]
"""The rows of the one arm by metric, class and statistic."""


def load_summary(analysis: Analysis, verdicts: list[Verdict], table: Sequence[Row]) -> "Group":
    """Print this with rich; `table` has the rows of the run. What did not end well comes first."""
    from rich.console import Group
    from rich.text import Text

    rows = {(row.metric, row.traffic_class, row.statistic): row for row in table}
    limited, interrupted = bool(analysis.run.manifest.limits), analysis.run.manifest.status == "interrupted"
    parts: list[Text | Table] = [Text(STAND_IN, style="yellow")] if analysis.run.manifest.stub else []
    parts += [Text(line) for line in outcome_lines(analysis)]
    parts += [_latencies(analysis, rows), *(Text(line) for line in rate_lines(rows, limited=limited))]
    shown = [one for one in verdicts if one.status == "FAIL" or (one.status == "UNKNOWN" and not interrupted)]
    for one in shown:
        parts.append(Text(f"{one.status} {one.check}: {one.text}", style="red" if one.status == "FAIL" else "yellow"))
        parts += [Text(f"    {line}") for line in one.evidence]
    if interrupted:
        parts.append(Text("The load was interrupted, so it is not valid; what was measured is kept.", style="yellow"))
    else:
        line = verdict_line(verdicts, exit_code(verdicts, analysis.run))
        parts.append(Text(line, style="red" if shown else "green"))
    return Group(*parts)


def outcome_lines(analysis: Analysis) -> list[str]:
    """How the planned requests ended; those that did not end well with their reasons, the commonest first."""
    rows = [view.row for view in analysis.views]
    counts = count_outcomes(rows)
    told = ", ".join(f"{name} {counts[name]:,}" for name in (*OUTCOMES, INTERRUPTED) if counts[name])
    lines = [f"{len(rows):,} planned = {told}"] if rows else ["no request was planned"]
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if row.ended is not None and row.ended.reason:
            reasons.setdefault(row.ended.reason, []).append(row.ended.error if row.ended.error else "")
    ordered = sorted(reasons.items(), key=lambda pair: (-len(pair[1]), pair[0]))
    for reason, errors in ordered[:REASONS_SHOWN]:
        said = next((error for error in errors if error), "")
        lines.append(f"  {len(errors):,} x {reason}{f', such as: {_first_line(said)}' if said else ''}")
    if len(ordered) > REASONS_SHOWN:
        lines.append(f"  and {len(ordered) - REASONS_SHOWN} more reasons")
    return lines


def _first_line(text: str, most: int = 100) -> str:
    line = text.strip().splitlines()[0] if text.strip() else text.strip()
    return line if len(line) <= most else f"{line[: most - 1]}…"


def _latencies(analysis: Analysis, rows: Rows) -> "Table":
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    classes = analysis.classes if len(analysis.classes) == 1 else (ALL_CLASSES, *analysis.classes)
    for title in ("milliseconds", "class", "n"):
        table.add_column(title, justify="right" if title == "n" else "left")
    for name in STATISTICS:
        table.add_column(name, justify="right")
    for metric, title in LATENCIES:
        for traffic_class in classes:
            found = [rows[metric, traffic_class, name] for name in STATISTICS]
            table.add_row(title, traffic_class, f"{max(row.n for row in found):,}", *(_cell(row) for row in found))
    return table


def _cell(row: Row) -> str:
    """In one unit, so that a column can be read down."""
    return "no value" if isinstance(row.value, Missing) else figure_number(row.value * 1000)


def rate_lines(rows: Rows, *, limited: bool) -> list[str]:
    """What was asked, sent and finished in a second, and what was good of it where that was limited."""
    def rate(metric: str) -> str:
        row = rows[metric, ALL_CLASSES, "rate"]
        return f"no value ({row.value.reason})" if isinstance(row.value, Missing) else figure_number(row.value)

    lines = [
        f"requests a second: asked {rate('offered_rps')}, sent {rate('sent_rps')}, finished {rate('finished_rps')}; "
        f"output tokens a second: {rate('output_tokens_per_s')}"
    ]
    if not limited:
        return [*lines, "goodput: no limits were given, such as --goodput ttft:300 tpot:50"]
    share, good = rows["goodput_ratio", ALL_CLASSES, "share"], rows["goodput_rps", ALL_CLASSES, "rate"]
    note = f" ({good.note})" if good.note else ""
    if isinstance(share.value, Missing) or isinstance(good.value, Missing):
        missing = share.value if isinstance(share.value, Missing) else good.value
        return [*lines, f"goodput{note}: {missing}"]
    return [*lines, f"goodput{note}: {share.value:.1%} of the planned, {figure_number(good.value)} requests a second"]
