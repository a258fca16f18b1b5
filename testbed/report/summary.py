"""The first half page: what the tier bought, what each fault cost, what came of the hypothesis, and what stays open."""

from testbed.checks.runner import EXIT_MEANINGS
from testbed.checks.verdict import Verdict
from testbed.metrics.analysis import Analysis
from testbed.metrics.hypothesis import evaluate
from testbed.metrics.pairs import FaultCost, TierGain, fault_costs, tier_gains
from testbed.missing import Missing
from testbed.report.content import Block, Cell, Items, Section, Table, Text, row
from testbed.report.wording import figure_number, number, ratio


def verdict_line(verdicts: list[Verdict], code: int) -> str:
    """The exit code, what it means, and how the checks came out."""
    counts = {status: sum(one.status == status for one in verdicts) for status in ("PASS", "FAIL", "UNKNOWN")}
    told = ", ".join(f"{count} {status}" for status, count in counts.items())
    return f"Exit {code}: {EXIT_MEANINGS[code]}. Of {len(verdicts)} checks: {told}."


def summary_section(analysis: Analysis, verdicts: list[Verdict]) -> Section:
    """What came out, in words; whatever failed comes first."""
    bad = [f"{one.status} {one.check}: {one.text}" for one in verdicts if one.status != "PASS"]
    blocks: list[Block] = []
    if analysis.run.manifest.stub:
        blocks.append(Text("This journal was made with the stand-in server: no number in it is a result.", "warning"))
    if bad:
        blocks.append(Items(tuple(bad)))
    gains = [gain_sentence(gain) for gain in tier_gains(analysis)]
    blocks.append(Text("What the tier bought, by the same planned requests in both arms (95 % intervals):"))
    blocks.append(Items(tuple(gains)) if gains else Text("This run has no arm without a tier to compare with."))
    costs = fault_costs(analysis)
    blocks.append(_costs_table(costs) if costs else Text("No fault was planned in this run."))
    return Section("Summary", tuple(blocks))


def gain_sentence(gain: TierGain) -> str:
    """One traffic class: how its first token changed with the tier."""
    what = f"{gain.traffic_class}: median TTFT of {gain.arm} over {gain.over}"
    if isinstance(gain.ratio, Missing):
        return f"{what}: {gain.ratio}"
    if gain.ratio.no_difference_seen:
        said = "no difference seen"
    else:
        said = "faster with the tier" if gain.ratio.value < 1 else "slower with the tier"
    return f"{what} is {ratio(gain.ratio)}: {said}."


def _costs_table(costs: list[FaultCost]) -> Table:
    head = ("arm / fault", "struck", "TTFT p50, struck", "the same in", "TTFT p50 there", "ratio", "recomputed")
    rows = tuple(
        row(
            f"{cost.arm} / {cost.fault}", Cell(str(cost.struck), struck_in_both(cost)), number(cost.struck_ttft_s, "s"),
            "no arm" if cost.control is None else cost.control, number(cost.control_ttft_s, "s"), ratio(cost.ratio),
            _tokens(cost.recomputed_tokens),
        )
        for cost in costs
    )
    return Table("What each fault cost the requests that it struck", head, rows)


def struck_in_both(cost: FaultCost) -> str:
    """How many of the struck requests the comparison can use, where the control strikes requests of its own."""
    return "" if cost.struck_in_both is None else f"{cost.struck_in_both} of {cost.struck} struck in both"


def _tokens(tokens: int | Missing) -> str:
    return str(tokens) if isinstance(tokens, Missing) else f"{figure_number(float(tokens))} tokens"


def hypothesis_section(analysis: Analysis) -> Section:
    """The claim, written before the run, and what came of it."""
    claim, finding = analysis.run.manifest.hypothesis, evaluate(analysis)
    if claim is None or isinstance(finding, Missing):
        return Section("Hypothesis", (Text("The experiment states no hypothesis."),))
    predicted = f"{claim.metric} of {claim.traffic_class} in arm {claim.arm} over arm {claim.over}: {claim.ratio}"
    lines = (
        f"Bottleneck: {claim.bottleneck}", f"Predicts: {predicted}", f"Refuted by: {claim.refuted_by}",
        f"Came out: {finding.verdict}. {finding.text}",
    )
    return Section("Hypothesis", (Items(lines),))


def limits_section(analysis: Analysis) -> Section:
    """What this run can not say, from its own facts."""
    manifest = analysis.run.manifest
    lines = []
    if manifest.host.get("device") != "cuda":
        lines.append(
            "The engines ran on a CPU. Ratios between arms show what the mechanism does; absolute times, and the "
            "point at which loading beats computing, say nothing about a GPU."
        )
    if any(path.nominal_bytes_per_s is None for path in manifest.paths):
        lines.append("Some paths have no data-sheet rate, so their loads are held against calibration only.")
    if len({event.host for event in analysis.run.journal.events}) <= 1:
        lines.append("One machine: engine, tier and client share its cores and memory, and no network was involved.")
    if manifest.repetitions == 1:
        lines.append("Each arm ran once: intervals show the scatter among requests, not among repetitions.")
    if not analysis.run.golden:
        lines.append("Outputs were not checked: there are no golden answers.")
    lines.append(f"One model ({manifest.model}, {manifest.dtype}) and one workload.")
    return Section("What this run cannot say", (Items(tuple(lines)),))
