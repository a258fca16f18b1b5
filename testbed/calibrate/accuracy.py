"""How far a client's stamps lie from those of the server that it talked to, on one host's one clock, per request."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from testbed.errors import RunError
from testbed.journal.events import RequestEnded
from testbed.stub.log import Stamps

P99 = 0.99
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class RequestError:
    """One request: what the client says minus what the server says, in seconds.

    `late_s` is each chunk's receipt minus its sending, `itl_s` each gap's error. `worst_s` is the worst of the TTFT and
    the lateness of any chunk; a gap can't be off by more than its two ends.
    """

    ttft_s: float
    late_s: tuple[float, ...]

    @property
    def worst_s(self) -> float:
        """The largest error of this request."""
        return max(abs(self.ttft_s), *map(abs, self.late_s))

    @property
    def itl_s(self) -> tuple[float, ...]:
        """Error of each gap between two chunks."""
        return tuple(after - before for before, after in zip(self.late_s, self.late_s[1:], strict=False))


@dataclass(frozen=True)
class Accuracy:
    """The errors of many requests, in seconds. A bias is a median with its sign; p99 and max are of the size."""

    requests: int
    chunks: int
    error_p50_s: float
    error_p99_s: float
    error_max_s: float
    ttft_bias_s: float
    ttft_error_p99_s: float
    ttft_error_max_s: float
    itl_bias_s: float
    itl_error_p99_s: float
    itl_error_max_s: float


def request_error(ended: RequestEnded, stamps: Stamps) -> RequestError:
    """Hold one request's stamps against the server's.

    Raises: RunError if the client counted other chunks than were sent, so that no pair of stamps belongs together.
    """
    if ended.sent_at_ns is None or not stamps.sent_at_ns or len(ended.chunk_at_ns) != len(stamps.sent_at_ns):
        raise RunError(
            f"{ended.request_id} has {len(ended.chunk_at_ns)} chunks at the client, {len(stamps.sent_at_ns)} were sent"
        )
    late_s = tuple((got - sent) / 1e9 for got, sent in zip(ended.chunk_at_ns, stamps.sent_at_ns, strict=True))
    by_client_ns = ended.chunk_at_ns[0] - ended.sent_at_ns
    by_server_ns = stamps.sent_at_ns[0] - stamps.received_at_ns
    return RequestError((by_client_ns - by_server_ns) / 1e9, late_s)


def request_errors(ended: Sequence[RequestEnded], stamps: Mapping[str, Stamps]) -> list[RequestError]:
    """The errors of all requests, which must all have reached the server.

    Raises: RunError if one did not.
    """
    lost = [one.request_id for one in ended if one.request_id not in stamps]
    if lost:
        raise RunError(f"{len(lost)} requests never reached the stand-in, such as {lost[0]}")
    return [request_error(one, stamps[one.request_id]) for one in ended]


def accuracy(errors: Sequence[RequestError]) -> Accuracy:
    """Bias and spread over all requests, and over all gaps.

    Raises: RunError if there are no gaps.
    """
    gaps = np.array([gap for one in errors for gap in one.itl_s])
    if not len(gaps):
        raise RunError("no answer had two chunks")
    ttft = np.array([one.ttft_s for one in errors])
    worst = np.array([one.worst_s for one in errors])
    return Accuracy(
        requests=len(errors), chunks=sum(len(one.late_s) for one in errors),
        error_p50_s=_quantile(worst, 0.5), error_p99_s=_quantile(worst, P99), error_max_s=float(worst.max()),
        ttft_bias_s=_quantile(ttft, 0.5), ttft_error_p99_s=_quantile(abs(ttft), P99),
        ttft_error_max_s=float(abs(ttft).max()),
        itl_bias_s=_quantile(gaps, 0.5), itl_error_p99_s=_quantile(abs(gaps), P99),
        itl_error_max_s=float(abs(gaps).max()),
    )


def _quantile(values: Floats, q: float) -> float:
    """Linear between the neighbours of rank (n - 1) q."""
    return float(np.quantile(values, q))
