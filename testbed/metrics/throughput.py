"""Rates: what was offered, what was sent of it, what was finished, and the tokens that reached the client.

Offered and sent are told over the time of sending: over the window of the answers a client that can't keep up would
lower what it was asked for as well.
"""

from testbed.metrics import drives
from testbed.metrics.declaration import ArmMetric, Estimate
from testbed.metrics.lengths import unhonoured
from testbed.metrics.outcomes import COUNT
from testbed.metrics.views import ArmView
from testbed.missing import Missing


def offered_rps(view: ArmView) -> Estimate | Missing:
    """What the schedule asked of the client."""
    return _estimate(drives.offered_rps(view.drives), view)


def sent_rps(view: ArmView) -> Estimate | Missing:
    """What the client sent of it."""
    return _estimate(drives.sent_rps(view.drives), view)


def _estimate(value: float | Missing, view: ArmView) -> Estimate | Missing:
    return value if isinstance(value, Missing) else Estimate(value, len(view.requests), COUNT)


def finished_rps(view: ArmView) -> Estimate | Missing:
    """Complete answers ÷ window."""
    return _rate(view, sum(one.row.ok for one in view.requests))


def output_tokens_per_s(view: ArmView) -> Estimate | Missing:
    """Output tokens of complete answers ÷ window; tokens of broken answers are not committed to anybody.

    Withheld where answers have another length than was forced: such a rate compares with no other.
    """
    wrong = [told for one in view.requests if (told := unhonoured(one.row))]
    if wrong:
        return Missing(f"output length not honoured in {len(wrong)} of {len(view.requests)} requests")
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
        meaning="requests per second that the schedule asked for, from the first due to the last", compute=offered_rps,
    ),
    ArmMetric(
        name="sent_rps", unit="req/s", better="higher", needs=("request_planned", "request_sent"), statistics=("rate",),
        meaning="requests per second that the client sent, from the first due to the last sent", compute=sent_rps,
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
