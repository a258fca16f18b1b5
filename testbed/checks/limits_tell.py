"""The SLO limits tell the arms apart: they are neither met by all nor by none."""

from testbed.checks.verdict import Finding, passed, unknown
from testbed.metrics.analysis import Analysis
from testbed.metrics.goodput import goodput_ratio
from testbed.missing import Missing


def check(analysis: Analysis) -> Finding | None:
    """Does not apply where no goodput can be computed; that it is missing is said elsewhere."""
    found = {arm.name: goodput_ratio(analysis.arm_view(arm)) for arm in analysis.arms}
    ratios = {name: estimate.value for name, estimate in found.items() if not isinstance(estimate, Missing)}
    if not ratios:
        return None
    told = [f"arm {name}: {ratio:.3f}" for name, ratio in ratios.items()]
    if set(ratios.values()) in ({0.0}, {1.0}):
        return unknown("the limits tell nothing: goodput is the same extreme in every arm", told)
    return passed("the limits tell good service from bad", told)
