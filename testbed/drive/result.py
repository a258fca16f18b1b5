"""What a drive tells while it is on, and what it did: put together from the numbers of its processes."""

import bisect
import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from testbed.drive.outcome import KINDS
from testbed.drive.pace import Standing, Tally
from testbed.missing import Missing

P99_LEAST = 100


@dataclass(frozen=True)
class Progress:
    """Where a drive stands. `asked` requests were due by now, by their planned times; `counts` has each outcome.

    `in_flight` are under way, whether their first byte is out or not. `ttft_p50_s` is the median, from the scheduled
    time, of the last answers.
    """

    planned: int
    asked: int
    sent: int
    ended: int
    in_flight: int
    counts: dict[str, int]
    ttft_p50_s: float | Missing


@dataclass(frozen=True)
class DriveResult:
    """What a drive did, and how well the client itself kept time.

    `counts` has each outcome; its sum is `planned`. A lag is sent minus scheduled. `loop_stall_max_s` is the longest
    time by which the client's own loop was held up, and `loop_stall_count` how often that was above STALL_LIMIT_S.
    `peak_open` is the most requests on the wire at once; with several workers the sum of theirs. `client_cpu_s` is the
    CPU time of all processes that send, from zero to the end; without workers all else that this process did is in it.
    `warnings` are what was seen before the start and does not forbid it.
    """

    zero_at_ns: int
    planned: int
    counts: dict[str, int]
    send_lag_p50_s: float | Missing
    send_lag_p99_s: float | Missing
    send_lag_max_s: float | Missing
    loop_stall_max_s: float
    loop_stall_count: int
    peak_open: int
    client_cpu_s: float
    interrupted: bool
    warnings: tuple[str, ...] = ()


def progress_of(standings: Sequence[Standing], planned_at_s: "array[float]", now_s: float) -> Progress:
    """The sum of where each process stands; `planned_at_s` in order, and `now_s` counts from the zero."""
    ttfts_s = [ttft_s for standing in standings for ttft_s in standing.ttfts_s]
    return Progress(
        planned=len(planned_at_s), asked=bisect.bisect_right(planned_at_s, now_s),
        sent=sum(standing.sent for standing in standings), ended=sum(standing.ended for standing in standings),
        in_flight=sum(standing.in_flight for standing in standings),
        counts=_counts(standings), ttft_p50_s=median(ttfts_s) if ttfts_s else Missing("no token has come yet"),
    )


def result_of(tallies: Sequence[Tally], zero_at_ns: int, warnings: Sequence[str]) -> DriveResult:
    """What all processes did together."""
    lags_s = array("d")
    for tally in tallies:
        lags_s.frombytes(tally.lags_s)
    ordered = sorted(lags_s)
    counts = _counts(tallies)
    return DriveResult(
        zero_at_ns=zero_at_ns, planned=sum(counts.values()), counts=counts,
        send_lag_p50_s=_quantile(ordered, 0.5, least=1), send_lag_p99_s=_quantile(ordered, 0.99, least=P99_LEAST),
        send_lag_max_s=_quantile(ordered, 1.0, least=1),
        loop_stall_max_s=max(tally.stall_max_s for tally in tallies),
        loop_stall_count=sum(tally.stall_count for tally in tallies),
        peak_open=sum(tally.peak_open for tally in tallies),
        client_cpu_s=sum(tally.client_cpu_s for tally in tallies),
        interrupted=any(tally.interrupted for tally in tallies), warnings=tuple(warnings),
    )


def _counts(parts: Sequence[Standing | Tally]) -> dict[str, int]:
    """Each outcome, also those that did not occur."""
    return {kind: sum(part.counts[kind] for part in parts if kind in part.counts) for kind in KINDS}


def _quantile(ordered: Sequence[float], q: float, *, least: int) -> float | Missing:
    """Linear between the neighbours of rank (n - 1) q."""
    if len(ordered) < least:
        return Missing(f"{len(ordered)} requests were sent, this needs {least}")
    rank = (len(ordered) - 1) * q
    low, high = ordered[math.floor(rank)], ordered[math.ceil(rank)]
    return low + (high - low) * (rank - math.floor(rank))
