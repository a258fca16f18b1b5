"""What a trace is like before anything is sent: lengths, rate over time, how coarse its clock is, what could be reused.

Percentiles are linear at rank (n - 1) q; p95 needs 20 requests and p99 a hundred. A peak is the fullest of the windows
that follow each other from the first request on.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise, takewhile

from testbed.missing import Missing
from testbed.workload.trace.lru import Depths, depths
from testbed.workload.trace.records import TraceRow

CAPACITIES_TOKENS: tuple[int | None, ...] = (1_000_000, 3_000_000, 10_000_000, 30_000_000, 50_000_000, None)
"""The sizes that are told by default; None is endless."""
_LEAST = {0.5: 1, 0.95: 20, 0.99: 100}
_NO_IDS = "the file does not say what prompts share"
_NO_TIMES = "conversations have no times"


@dataclass(frozen=True)
class LengthStats:
    """Token counts of all requests."""

    sum: int
    sum_of_squares: int
    mean: float
    p50: float | Missing
    p95: float | Missing
    p99: float | Missing
    min: int
    max: int


@dataclass(frozen=True)
class ClockStats:
    """Time stamps. Gaps lie between different ones; `common_gaps_s` are the five most frequent, with their counts."""

    distinct: int
    max_at_one: int
    gap_min_s: float | Missing
    gap_max_s: float | Missing
    common_gaps_s: tuple[tuple[float, int], ...]


@dataclass(frozen=True)
class RateStats:
    """Requests over time. `peak_count` is of the fullest window, `empty_windows` of those without a request."""

    span_s: float
    mean_rps: float | Missing
    window_s: float
    windows: int
    peak_count: int
    peak_rps: float
    empty_windows: int


@dataclass(frozen=True)
class CacheStats:
    """What an LRU cache of a size finds. Without a size it is endless.

    `hit_blocks_without_first` leaves out the first block of each request, where all begin with the same one.
    """

    capacity_tokens: int | None
    capacity_blocks: int | None
    hit_blocks: int
    hit_ratio: float
    share_of_endless: float | Missing
    hit_blocks_without_first: int | Missing
    evictions: int
    final_blocks: int


@dataclass(frozen=True)
class ReuseStats:
    """What prompts share. `hit_tokens` are of an endless cache, each hit capped at the length of its prompt.

    `mean_hit_ratio` is the mean over requests of the share of its blocks that are found. `common_first` is the block
    that all requests begin with, if there is one.
    """

    blocks: int
    distinct_blocks: int
    hit_blocks: int
    hit_tokens: int
    hit_ratio: float
    mean_hit_ratio: float
    requests_without_hit: int
    requests_fully_hit: int
    repeated_inside: int
    with_two_predecessors: int
    common_first: int | None
    caches: tuple[CacheStats, ...]


@dataclass(frozen=True)
class TraceStats:
    """All of it. Conversations have no times, and so neither clock nor rate."""

    requests: int
    input_tokens: LengthStats
    output_tokens: LengthStats
    clock: ClockStats | Missing
    rate: RateStats | Missing
    reuse: ReuseStats | Missing


def trace_stats(
    rows: Sequence[TraceRow], *, block_tokens: int = 512, window_s: float = 10.0,
    capacities_tokens: Sequence[int | None] = CAPACITIES_TOKENS, timed: bool = True,
) -> TraceStats:
    """Look at all `rows`, at least one, in order of time; their times mean nothing unless `timed`.

    A capacity is that many tokens in whole blocks.
    """
    return TraceStats(
        requests=len(rows),
        input_tokens=_lengths([row.input_tokens for row in rows]),
        output_tokens=_lengths([row.output_tokens for row in rows]),
        clock=clock_stats(rows) if timed else Missing(_NO_TIMES),
        rate=rate_stats(rows, window_s) if timed else Missing(_NO_TIMES),
        reuse=_reuse(rows, block_tokens, capacities_tokens) if any(row.ids for row in rows) else Missing(_NO_IDS),
    )


def rate_stats(rows: Sequence[TraceRow], window_s: float) -> RateStats:
    """Requests over time, in windows of that length."""
    first_ns, span_ns, window_ns = rows[0].at_ns, rows[-1].at_ns - rows[0].at_ns, round(window_s * 1e9)
    counts = Counter((row.at_ns - first_ns) // window_ns for row in rows)
    windows, peak = span_ns // window_ns + 1, max(counts.values())
    return RateStats(
        span_s=span_ns / 1e9,
        mean_rps=len(rows) / (span_ns / 1e9) if span_ns else Missing("all requests come at one moment"),
        window_s=window_s, windows=windows, peak_count=peak, peak_rps=peak / window_s,
        empty_windows=windows - len(counts),
    )


def _lengths(tokens: Sequence[int]) -> LengthStats:
    ordered = sorted(tokens)
    p50, p95, p99 = (_percentile(ordered, q, least) for q, least in _LEAST.items())
    return LengthStats(
        sum(ordered), sum(count * count for count in ordered), sum(ordered) / len(ordered), p50, p95, p99,
        ordered[0], ordered[-1],
    )


def _percentile(ordered: Sequence[int], q: float, least: int) -> float | Missing:
    if len(ordered) < least:
        return Missing(f"{len(ordered)} requests; p{q * 100:.0f} needs {least}")
    rank = (len(ordered) - 1) * q
    low, high = ordered[math.floor(rank)], ordered[math.ceil(rank)]
    return low + (high - low) * (rank - math.floor(rank))


def clock_stats(rows: Sequence[TraceRow]) -> ClockStats:
    """The time stamps of rows in order of time."""
    groups = [(at_ns, len(list(group))) for at_ns, group in groupby(rows, key=lambda row: row.at_ns)]
    gaps = Counter(after - before for (before, _), (after, _) in pairwise(groups))
    none = Missing("all requests come at one moment")
    return ClockStats(
        distinct=len(groups),
        max_at_one=max(count for _, count in groups),
        gap_min_s=min(gaps) / 1e9 if gaps else none,
        gap_max_s=max(gaps) / 1e9 if gaps else none,
        common_gaps_s=tuple((gap / 1e9, count) for gap, count in gaps.most_common(5)),
    )


def _reuse(rows: Sequence[TraceRow], block_tokens: int, capacities: Sequence[int | None]) -> ReuseStats:
    found = depths([row.ids for row in rows])
    hits = _endless_hits(rows)
    tokens = [hit_tokens for _, hit_tokens in hits]
    first_ids = {row.ids[0] if row.ids else None for row in rows}
    common = first_ids.pop() if len(first_ids) == 1 else None
    input_tokens = sum(row.input_tokens for row in rows)
    pairs = {pair for row in rows for pair in zip((None, *row.ids), row.ids, strict=False)}
    predecessors = Counter(block for _, block in pairs)
    shares = [blocks / max(1, len(row.ids)) for (blocks, _), row in zip(hits, rows, strict=True)]
    return ReuseStats(
        blocks=found.total,
        distinct_blocks=found.distinct,
        hit_blocks=found.hit_blocks(None),
        hit_tokens=sum(tokens),
        hit_ratio=sum(tokens) / input_tokens,
        mean_hit_ratio=sum(shares) / len(rows),
        requests_without_hit=tokens.count(0),
        requests_fully_hit=sum(hit == row.input_tokens for hit, row in zip(tokens, rows, strict=True)),
        repeated_inside=sum(len(row.ids) - len(set(row.ids)) for row in rows),
        with_two_predecessors=sum(count > 1 for count in predecessors.values()),
        common_first=common,
        caches=tuple(_cache(found, capacity, block_tokens, common is not None) for capacity in capacities),
    )


def _endless_hits(rows: Iterable[TraceRow]) -> list[tuple[int, int]]:
    """Leading blocks of each request that were there before, and their tokens, none beyond the prompt."""
    seen: set[int] = set()
    hits: list[tuple[int, int]] = []
    for row in rows:
        blocks = sum(1 for _ in takewhile(seen.__contains__, row.ids))
        hits.append((blocks, row.ends[blocks - 1] if blocks else 0))
        seen.update(row.ids)
    return hits


def _cache(found: Depths, capacity_tokens: int | None, block_tokens: int, has_common: bool) -> CacheStats:
    blocks = None if capacity_tokens is None else capacity_tokens // block_tokens
    hits, endless = found.hit_blocks(blocks), found.hit_blocks(None)
    return CacheStats(
        capacity_tokens=capacity_tokens,
        capacity_blocks=blocks,
        hit_blocks=hits,
        hit_ratio=hits / found.total,
        share_of_endless=hits / endless if endless else Missing("an endless cache finds nothing"),
        hit_blocks_without_first=(
            hits - found.first_block_hits(blocks) if has_common else Missing("requests begin with different blocks")
        ),
        evictions=found.evictions(blocks),
        final_blocks=found.final_blocks(blocks),
    )
