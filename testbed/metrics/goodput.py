"""Good requests: complete, right, and inside every limit of their class. All others are lost, each to one cause."""

from collections import Counter

from testbed.journal.manifest import Limits
from testbed.metrics.declaration import ArmMetric, Estimate
from testbed.metrics.latency import e2e_s, tpot_s, ttft_s
from testbed.metrics.outcomes import COUNT, outcome_of
from testbed.metrics.requests import RequestRow
from testbed.metrics.statistics import share_interval
from testbed.metrics.views import ArmView, RequestView
from testbed.missing import Missing

GOOD = "good"
NO_LIMITS = "no_limits"
CAUSES = (
    "failed", "timed_out", "cancelled", "rejected", "not_sent", "interrupted",
    "wrong", "unchecked", "slow_first_token", "slow_tokens", "slow_answer", "tokens_unknown",
)


def judge(view: RequestView) -> str:
    """`good`, or the first cause for which a request is lost; `no_limits` where its class has no SLO."""
    if not view.row.ok:
        return outcome_of(view.row)
    if view.limits is None:
        return NO_LIMITS
    if view.outputs_checked and not view.match.right:
        return "wrong" if view.match.kind == "wrong" else "unchecked"
    return _slow(view.row, view.limits)


def _slow(row: RequestRow, limits: Limits) -> str:
    """The first limit that a complete answer missed. An answer of one token has no TPOT and is judged without it."""
    first, each, whole = ttft_s(row), tpot_s(row), e2e_s(row)
    if limits.ttft_s is not None and (isinstance(first, Missing) or first > limits.ttft_s):
        return "slow_first_token"
    if limits.tpot_s is not None and row.output_tokens is None:
        return "tokens_unknown"
    if limits.tpot_s is not None and not isinstance(each, Missing) and each > limits.tpot_s:
        return "slow_tokens"
    if limits.e2e_s is not None and (isinstance(whole, Missing) or whole > limits.e2e_s):
        return "slow_answer"
    return GOOD


def lost_by_cause(view: ArmView) -> Counter[str]:
    """Requests by cause, `good` among them; the counts add up to the planned ones."""
    return Counter(judge(one) for one in view.requests)


def _good(view: ArmView) -> int | Missing:
    if not view.requests:
        return Missing("no request of this class was planned")
    without = sorted({one.row.traffic_class for one in view.requests if one.limits is None})
    if without:
        return Missing(f"no limits for {', '.join(without)}")
    return lost_by_cause(view)[GOOD]


def goodput_rps(view: ArmView) -> Estimate | Missing:
    """Good requests ÷ window."""
    good = _good(view)
    if isinstance(good, Missing):
        return good
    if isinstance(view.window_s, Missing):
        return view.window_s
    return Estimate(good / view.window_s, len(view.requests), COUNT)


def goodput_ratio(view: ArmView) -> Estimate | Missing:
    """Good requests ÷ planned requests."""
    good = _good(view)
    if isinstance(good, Missing):
        return good
    planned = len(view.requests)
    return Estimate(good / planned, planned, share_interval(good, planned))


_NEEDS = ("request_planned", "request_ended")

GOODPUT_METRICS = (
    ArmMetric(
        name="goodput_ratio", unit="", better="higher", needs=_NEEDS, statistics=("share",),
        meaning="share of the planned requests that were complete, right, and inside every limit of their class",
        compute=goodput_ratio,
    ),
    ArmMetric(
        name="goodput_rps", unit="req/s", better="higher", needs=_NEEDS, statistics=("rate",),
        meaning="good requests per second of the window", compute=goodput_rps,
    ),
)
