"""The summary of a run for a terminal: one line an arm, then what it means and what is wrong."""

from typing import TYPE_CHECKING

from testbed.checks.runner import exit_code
from testbed.checks.verdict import Verdict
from testbed.journal.run import Run
from testbed.metrics.analysis import Analysis
from testbed.metrics.hypothesis import evaluate
from testbed.metrics.pairs import FaultCost, fault_costs, tier_gains
from testbed.metrics.table import Row, summarise_analysis
from testbed.metrics.views import ALL_CLASSES
from testbed.missing import Missing
from testbed.report.summary import gain_sentence, struck_in_both, verdict_line
from testbed.report.wording import number, ratio

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table


def summary(run: Run, verdicts: list[Verdict]) -> "Group":
    """Print this with rich. Words carry the meaning; colours only repeat it."""
    from rich.console import Group
    from rich.text import Text

    analysis = Analysis(run)
    finding = evaluate(analysis)
    bad = [one for one in verdicts if one.status != "PASS"]
    parts: list[Table | Text] = [_table(analysis)]
    parts += [Text(gain_sentence(gain)) for gain in tier_gains(analysis)]
    parts += [Text(_cost_sentence(cost)) for cost in fault_costs(analysis)]
    if not isinstance(finding, Missing):
        parts.append(Text(f"hypothesis {finding.verdict}: {finding.text}"))
    for one in bad:
        parts.append(Text(f"{one.status} {one.check}: {one.text}", style="red" if one.status == "FAIL" else "yellow"))
        parts += [Text(f"    {line}") for line in one.evidence]
    parts.append(Text(verdict_line(verdicts, exit_code(verdicts, run)), style="red" if bad else "green"))
    return Group(*parts)


def _table(analysis: Analysis) -> "Table":
    from rich import box
    from rich.table import Table

    rows = summarise_analysis(analysis)
    found = {(row.metric, row.traffic_class, row.arm, row.statistic): row for row in rows}
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("arm")
    table.add_column("ok / planned", justify="right")
    for name in analysis.classes:
        table.add_column(f"TTFT p50 {name}", justify="right")
    for title in ("goodput", "loaded tokens", "computed", "after a failed load"):
        table.add_column(title, justify="right")
    for arm in analysis.arms:
        def of(metric: str, statistic: str, name: str = ALL_CLASSES, arm_name: str = arm.name) -> Row:
            return found[metric, name, arm_name, statistic]

        table.add_row(
            arm.name, f"{number(of('ok_count', 'count').value)} / {number(of('planned_count', 'count').value)}",
            *(_short(of("ttft_s", "p50", name)) for name in analysis.classes), _short(of("goodput_ratio", "share")),
            *(_short(of(f"{name}_tokens", "total")) for name in ("loaded", "computed", "recomputed_after_failure")),
        )
    return table


def _short(row: Row) -> str:
    return "no value" if isinstance(row.value, Missing) else number(row.value, "s" if row.unit == "s" else "")


def _cost_sentence(cost: FaultCost) -> str:
    if isinstance(cost.struck_ttft_s, Missing) or isinstance(cost.control_ttft_s, Missing):
        return f"{cost.arm}/{cost.fault} struck {cost.struck} requests; TTFT: {cost.struck_ttft_s}"
    beside = f"{number(cost.control_ttft_s, 's')} of the same requests in {cost.control}"
    both = f" ({told})" if (told := struck_in_both(cost)) else ""
    struck = f"{cost.arm}/{cost.fault} struck {cost.struck} requests{both}: TTFT p50 {number(cost.struck_ttft_s, 's')}"
    tokens = number(cost.recomputed_tokens, "tokens")
    return f"{struck} against {beside}, ratio {ratio(cost.ratio)}; recomputed: {tokens}"
