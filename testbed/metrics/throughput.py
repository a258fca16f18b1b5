"""Rates: what was offered, what was finished, and the tokens that reached the client."""

from testbed.metrics.declaration import ArmMetric, Estimate
from testbed.metrics.outcomes import COUNT
from testbed.metrics.views import ArmView
from testbed.missing import Missing


def offered_rps(view: ArmView) -> Estimate | Missing:
    """Planned requests ÷ window."""
    return _rate(view, len(view.requests))


def finished_rps(view: ArmView) -> Estimate | Missing:
    """Complete answers ÷ window."""
    return _rate(view, sum(one.row.ok for one in view.requests))


def output_tokens_per_s(view: ArmView) -> Estimate | Missing:
    """Output tokens of complete answers ÷ window; tokens of broken answers are not committed to anybody."""
    tokens = 0
    for one in view.requests:
        if one.row.ok:
            count = one.row.output_tokens
            if count is None:
                return Missing(f"the length of the answer to {one.row.request_id} is not known")
            tokens += count
    return _rate(view, tokens)


def _rate(view: ArmView, count: int) -> Estimate | Missing:
    if isinstance(view.window_s, Missing):
        return view.window_s
    return Estimate(count / view.window_s, len(view.requests), COUNT)


THROUGHPUT_METRICS = (
    ArmMetric(
        name="offered_rps", unit="req/s", better="neither", needs=("request_planned",), statistics=("rate",),
        meaning="planned requests per second of the window", compute=offered_rps,
    ),
    ArmMetric(
        name="finished_rps", unit="req/s", better="higher", needs=("request_ended",), statistics=("rate",),
        meaning="complete answers per second of the window", compute=finished_rps,
    ),
    ArmMetric(
        name="output_tokens_per_s", unit="tokens/s", better="higher", needs=("request_ended",), statistics=("rate",),
        meaning="output tokens of complete answers per second of the window", compute=output_tokens_per_s,
    ),
)
