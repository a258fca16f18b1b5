"""What came of the claim that was written before the run."""

from dataclasses import dataclass
from typing import Literal

from testbed.journal.manifest import HypothesisFacts
from testbed.metrics.analysis import Analysis
from testbed.metrics.pairs import find_metric, pairs
from testbed.metrics.statistics import Ratio, paired_ratio, seed_of
from testbed.missing import Missing

SMALLEST_N = 20


@dataclass(frozen=True)
class Finding:
    """`supported` when the whole interval lies where the claim says, `refuted` when it reaches the claimed limit.

    `undecided` when there are fewer than 20 pairs, or no ratio at all.
    """

    verdict: Literal["supported", "refuted", "undecided"]
    ratio: Ratio | Missing
    text: str


def evaluate(analysis: Analysis) -> Finding | Missing:
    """Judge the hypothesis of the manifest by the paired ratio of medians; Missing where the experiment has none."""
    claim = analysis.run.manifest.hypothesis
    if claim is None:
        return Missing("the experiment states no hypothesis")
    ratio = _ratio(analysis, claim)
    what = f"median {claim.metric} of {claim.traffic_class}, {claim.arm} over {claim.over}"
    if isinstance(ratio, Missing):
        return Finding("undecided", ratio, f"{what}: {ratio}")
    numbers = f"{what}: {ratio.value:.3g} (95 % interval {ratio.low:.3g} to {ratio.high:.3g}, n={ratio.n})"
    if ratio.n < SMALLEST_N:
        return Finding("undecided", ratio, f"{numbers}; fewer than {SMALLEST_N} pairs decide nothing")
    return _judge(claim.ratio, ratio, numbers)


def _ratio(analysis: Analysis, claim: HypothesisFacts) -> Ratio | Missing:
    metric = find_metric(claim.metric)
    if isinstance(metric, Missing):
        return metric
    found = pairs(analysis, metric, claim.arm, claim.over, claim.traffic_class)
    return paired_ratio(found, seed_of(analysis.run.manifest.seed, "paired", claim.arm, claim.traffic_class))


def _judge(claimed: str, ratio: Ratio, numbers: str) -> Finding:
    limit = float(claimed[1:])
    inside = ratio.high < limit if claimed.startswith("<") else ratio.low > limit
    if inside:
        return Finding("supported", ratio, f"{numbers}; the whole interval is {claimed}")
    return Finding("refuted", ratio, f"{numbers}; the interval reaches {limit:g}, and the claim was {claimed}")
