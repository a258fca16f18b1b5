"""The share of good requests among those that could come to an end: what the run or the user broke off is left out."""

from testbed.metrics.declaration import ArmMetric, Estimate
from testbed.metrics.goodput import GOOD, judge
from testbed.metrics.outcomes import broken_off
from testbed.metrics.statistics import share_interval
from testbed.metrics.views import ArmView
from testbed.missing import Missing


def attainment_ratio(view: ArmView) -> Estimate | Missing:
    """Good requests ÷ requests that were not broken off; failures, timeouts and rejections count against it."""
    causes = [judge(one) for one in view.requests if not broken_off(one.row)]
    if not causes:
        return Missing("no request of this class could come to an end")
    without = sorted({one.row.traffic_class for one in view.requests if one.limits is None})
    if without:
        return Missing(f"no limits for {', '.join(without)}")
    good = causes.count(GOOD)
    return Estimate(good / len(causes), len(causes), share_interval(good, len(causes)))


ATTAINMENT_METRICS = (
    ArmMetric(
        name="attainment_ratio", unit="", better="higher", needs=("request_planned", "request_ended"),
        statistics=("share",), meaning="share of good requests, less those that the run or the user broke off",
        compute=attainment_ratio,
    ),
)
