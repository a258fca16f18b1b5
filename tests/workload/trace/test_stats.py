"""The figures of a trace, each worked out by hand on a few requests."""

import json
from io import StringIO

import pytest
from rich.console import Console

from testbed.missing import Missing
from testbed.workload.trace.records import TraceRow
from testbed.workload.trace.stats import ReuseStats, clock_stats, rate_stats, trace_stats
from testbed.workload.trace.tables import Told, as_json, as_table


def row(at_s: float, tokens: int, output: int = 1, ids: tuple[int, ...] = ()) -> TraceRow:
    ends = (*range(100, tokens, 100), tokens) if ids else ()
    return TraceRow(1, round(at_s * 1e9), tokens, output, ids, ends)


# Blocks of 100 tokens; times 0, 0, 4, 25 and 40 s.
ROWS = (
    row(0, 150, 10, (0, 1)), row(0, 250, 20, (0, 1, 2)), row(4, 250, 30, (0, 1, 2)), row(25, 120, 40, (0, 3)),
    row(40, 230, 50, (0, 1, 4)),
)


def reuse(*rows: TraceRow) -> ReuseStats:
    found = trace_stats(rows, block_tokens=100, capacities_tokens=(250, None)).reuse
    assert isinstance(found, ReuseStats)
    return found


def test_lengths_have_their_moments_and_percentiles() -> None:
    lengths = trace_stats(ROWS).input_tokens
    # 150 + 250 + 250 + 120 + 230 = 1000; squares 22500 + 62500 + 62500 + 14400 + 52900; ordered 120 150 230 250 250
    assert (lengths.sum, lengths.sum_of_squares, lengths.mean) == (1000, 214_800, 200.0)
    assert (lengths.p50, lengths.min, lengths.max) == (230.0, 120, 250)


def test_a_percentile_lies_between_the_neighbours_of_its_rank_and_needs_enough_requests() -> None:
    stats = trace_stats([row(0, tokens) for tokens in range(1, 21)]).input_tokens
    # ranks (20 - 1) x 0.5 = 9.5 and (20 - 1) x 0.95 = 18.05, among 1, 2, 3, ...
    assert stats.p50 == 10.5
    assert stats.p95 == pytest.approx(19.05)
    assert stats.p99 == Missing("20 requests; p99 needs 100")
    assert trace_stats(ROWS).input_tokens.p95 == Missing("5 requests; p95 needs 20")


def test_the_rate_is_counted_in_windows_from_the_first_request_on() -> None:
    rate = rate_stats(ROWS, 10.0)
    # [0, 10) has 3, [10, 20) none, [20, 30) one, [30, 40) none, [40, 50) one; 5 requests in 40 s
    assert (rate.windows, rate.peak_count, rate.peak_rps, rate.empty_windows) == (5, 3, 0.3, 2)
    assert (rate.span_s, rate.mean_rps) == (40.0, 0.125)


def test_a_moment_has_no_rate() -> None:
    assert rate_stats(ROWS[:2], 10.0).mean_rps == Missing("all requests come at one moment")
    assert clock_stats(ROWS[:2]).gap_min_s == Missing("all requests come at one moment")


def test_time_stamps_are_counted_with_their_gaps() -> None:
    clock = clock_stats([row(at_s, 1) for at_s in (0, 0, 3, 6, 6, 6, 10)])
    # gaps 3, 3, 4
    assert (clock.distinct, clock.max_at_one, clock.gap_min_s, clock.gap_max_s) == (4, 3, 3.0, 4.0)
    assert clock.common_gaps_s == ((3.0, 2), (4.0, 1))


def test_hits_of_an_endless_cache_are_capped_at_the_length_of_the_prompt() -> None:
    found = reuse(*ROWS)
    # request 2 finds [0 1] = 200; 3 all three blocks, which are 250 of its 250; 4 finds [0] = 100; 5 [0 1] = 200
    assert (found.hit_tokens, found.hit_ratio) == (750, 0.75)
    # shares of blocks: 0, 2/3, 3/3, 1/2, 2/3
    assert found.mean_hit_ratio == pytest.approx((2 / 3 + 1 + 1 / 2 + 2 / 3) / 5)
    assert (found.requests_without_hit, found.requests_fully_hit) == (1, 1)
    assert (found.blocks, found.distinct_blocks, found.hit_blocks) == (13, 5, 8)


def test_hits_by_capacity_are_told_with_and_without_the_block_that_all_begin_with() -> None:
    found = reuse(*ROWS)
    small, endless = found.caches
    # 250 tokens are 2 blocks. Recency after each request: [1 0], [2 1 0], [2 1 0], [3 0 2 1]. Depths at the start:
    # request 2: 0, 1 lie 2, 1 deep: both found; 3: 0 lies 3 deep: none; 4: 3 deep: none; 5: 0 lies 2 deep, 1 lies 4
    assert (small.capacity_blocks, small.hit_blocks, small.hit_blocks_without_first) == (2, 3, 1)
    assert small.share_of_endless == 3 / 8
    assert (endless.hit_blocks, endless.hit_blocks_without_first, endless.capacity_tokens) == (8, 4, None)
    assert found.common_first == 0


def test_without_a_common_first_block_there_is_no_count_without_it() -> None:
    found = reuse(row(0, 100, ids=(0,)), row(1, 100, ids=(1,)))
    assert found.common_first is None
    assert found.caches[0].hit_blocks_without_first == Missing("requests begin with different blocks")
    assert found.caches[0].share_of_endless == Missing("an endless cache finds nothing")


def test_ids_that_are_no_prefixes_are_counted() -> None:
    # 5 follows 0 and 1; 1 stands first and after 0; 7 comes twice in one prompt, the second time after itself
    found = reuse(row(0, 200, ids=(0, 5)), row(0, 200, ids=(1, 5)), row(0, 200, ids=(0, 1)), row(0, 200, ids=(7, 7)))
    assert (found.with_two_predecessors, found.repeated_inside) == (3, 1)


def test_a_trace_without_ids_has_no_reuse() -> None:
    assert trace_stats([row(0, 5)]).reuse == Missing("the file does not say what prompts share")


def test_the_json_has_every_figure_and_says_why_one_is_not_there() -> None:
    found = json.loads(as_json(Told("t.jsonl", "mooncake", "ab", trace_stats(ROWS, block_tokens=100), ("a note",))))
    assert (found["file"], found["requests"], found["notes"]) == ("t.jsonl", 5, ["a note"])
    assert found["reuse"]["caches"][-1]["hit_blocks"] == 8
    assert found["input_tokens"]["p99"] is None
    assert found["missing"]["input_tokens.p99"] == "5 requests; p99 needs 100"
    assert json.loads(as_json(Told("t", "azure", "ab", trace_stats([row(0, 5)]))))["reuse"] is None


def test_the_table_tells_lengths_rate_and_reuse_within_eighty_columns() -> None:
    shown = StringIO()
    stats = trace_stats(ROWS, block_tokens=100, capacities_tokens=(250, None))
    told = Told("t.jsonl", "mooncake", "ab", stats, ("a note",))
    Console(file=shown, width=80, color_system=None).print(as_table(told))
    text = shown.getvalue()
    assert "t.jsonl: 5 requests (mooncake)" in text
    assert "note: a note" in text
    assert "mean rate 0.125 requests/s" in text
    assert "peak 0.3 requests/s: 3 in one of 5 windows of 10 s, 2 of them empty" in text
    assert ["endless", "-", "8", "61.54%", "100.00%", "4"] in [line.split() for line in text.splitlines()]
    assert "…" not in text
