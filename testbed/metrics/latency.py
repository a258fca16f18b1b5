"""Times of complete answers. They count from the scheduled moment, so that a late client can't flatter the engine.

Failed requests have no latency: they count against goodput and never enter a percentile.
"""

from itertools import pairwise

from testbed.journal.events import RequestEnded
from testbed.metrics.declaration import RequestMetric
from testbed.metrics.requests import NS, RequestRow
from testbed.metrics.views import RequestView
from testbed.missing import Missing

_STATISTICS = ("p50", "mean", "p95", "p99")
_NOT_OK = Missing("the answer is not complete")


def _answer(row: RequestRow) -> RequestEnded | None:
    return row.ended if row.ok else None


def ttft_s(row: RequestRow) -> float | Missing:
    """First token received − scheduled."""
    answer = _answer(row)
    if answer is None:
        return _NOT_OK
    if answer.first_token_at_ns is None:
        return Missing("no token came")
    return (answer.first_token_at_ns - answer.scheduled_at_ns) / NS


def ttft_sent_s(row: RequestRow) -> float | Missing:
    """First token received − first byte sent: what other tools call TTFT."""
    answer = _answer(row)
    if answer is None:
        return _NOT_OK
    if answer.first_token_at_ns is None or answer.sent_at_ns is None:
        return Missing("no token came, or it is not known when the request was sent")
    return (answer.first_token_at_ns - answer.sent_at_ns) / NS


def tpot_s(row: RequestRow) -> float | Missing:
    """(Last token − first token) ÷ (output tokens − 1); undefined below two tokens."""
    answer = _answer(row)
    if answer is None:
        return _NOT_OK
    tokens = row.output_tokens
    if tokens is None or answer.first_token_at_ns is None or answer.last_token_at_ns is None:
        return Missing("the number or the times of its tokens are not known")
    if tokens < 2:
        return Missing("fewer than two output tokens")
    return (answer.last_token_at_ns - answer.first_token_at_ns) / NS / (tokens - 1)


def itl_s(row: RequestRow) -> tuple[float, ...] | Missing:
    """The gap between each two tokens as received; tokens of one chunk came together, so their gaps are 0."""
    answer = _answer(row)
    if answer is None:
        return _NOT_OK
    if not answer.chunk_tokens or len(answer.chunk_tokens) != len(answer.chunk_at_ns):
        return Missing("the tokens of its chunks are not known")
    chunks = zip(answer.chunk_at_ns, answer.chunk_tokens, strict=True)
    arrived = [at_ns for at_ns, tokens in chunks for _ in range(tokens)]
    return tuple((after - before) / NS for before, after in pairwise(arrived))


def e2e_s(row: RequestRow) -> float | Missing:
    """Last token received − scheduled."""
    answer = _answer(row)
    if answer is None:
        return _NOT_OK
    if answer.last_token_at_ns is None:
        return Missing("no token came")
    return (answer.last_token_at_ns - answer.scheduled_at_ns) / NS


def send_lag_s(row: RequestRow) -> float | Missing:
    """First byte sent − scheduled, of every request that was sent, whatever became of it."""
    if row.due_at_ns is None or row.sent_at_ns is None:
        return Missing("it was never sent")
    return (row.sent_at_ns - row.due_at_ns) / NS


def _ttft_s(view: RequestView) -> float | Missing:
    return ttft_s(view.row)


def _ttft_sent_s(view: RequestView) -> float | Missing:
    return ttft_sent_s(view.row)


def _tpot_s(view: RequestView) -> float | Missing:
    return tpot_s(view.row)


def _itl_s(view: RequestView) -> tuple[float, ...] | Missing:
    return itl_s(view.row)


def _e2e_s(view: RequestView) -> float | Missing:
    return e2e_s(view.row)


def _send_lag_s(view: RequestView) -> float | Missing:
    return send_lag_s(view.row)


_ENDED = ("request_planned", "request_ended")

LATENCY_METRICS = (
    RequestMetric(
        name="ttft_s", unit="s", better="lower", needs=_ENDED, statistics=_STATISTICS,
        meaning="time to first token, from the moment the plan wanted the request out", compute=_ttft_s,
    ),
    RequestMetric(
        name="ttft_sent_s", unit="s", better="lower", needs=("request_sent", "request_ended"),
        statistics=_STATISTICS,
        meaning="time to first token, from the moment the first byte went out", compute=_ttft_sent_s,
    ),
    RequestMetric(
        name="tpot_s", unit="s", better="lower", needs=("request_ended",), statistics=_STATISTICS,
        meaning="mean time per output token of a request after the first", compute=_tpot_s,
    ),
    RequestMetric(
        name="itl_s", unit="s", better="lower", needs=("request_ended",), statistics=_STATISTICS,
        meaning="gap between two tokens as received", compute=_itl_s,
    ),
    RequestMetric(
        name="e2e_s", unit="s", better="lower", needs=_ENDED, statistics=_STATISTICS,
        meaning="last token, from the moment the plan wanted the request out", compute=_e2e_s,
    ),
    RequestMetric(
        name="send_lag_s", unit="s", better="lower", needs=("request_planned", "request_sent"),
        statistics=_STATISTICS,
        meaning="how late the client sent", compute=_send_lag_s,
    ),
)
