"""Planned requests of a trace share exactly what the trace says, and what is cut or left out is told."""

import json
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.errors import SpecError
from testbed.spec.trace import Trace
from testbed.workload.trace.blocks import scaled_ends
from testbed.workload.trace.mooncake import read_mooncake
from testbed.workload.trace.plan import TracePlan, TraceSetting, plan_trace
from testbed.workload.trace.records import TraceRecords, TraceRow, settle

TRACES = Path(__file__).resolve().parents[2] / "fixtures" / "traces"
TOKENS = tuple((7 * place) % 1000 for place in range(9000))
"""Each of a thousand tokens stands nine times, followed by the same ones."""


def spec(**changes: Any) -> Trace:
    return Trace.model_validate({"file": "t", "format": "mooncake", "timeout": "60s"} | changes)


def setting(**changes: Any) -> TraceSetting:
    return replace(TraceSetting("w", seed=7, tokens=TOKENS, max_model_len=100_000), **changes)


def records(text: str) -> TraceRecords:
    return settle(read_mooncake(text, where="t.jsonl"), where="t.jsonl", sha256="ab12", bad_rows="refuse")


def of_rows(*rows: TraceRow) -> TraceRecords:
    return TraceRecords("t", "ab12", rows)


def fixture(name: str) -> TraceRecords:
    return records((TRACES / name).read_text())


def row(line: int, tokens: int, ids: tuple[int, ...], at_s: float = 0.0, block: int = 512) -> TraceRow:
    ends = (*range(block, tokens, block), tokens)
    return TraceRow(line, round(at_s * 1e9), tokens, 4, ids, ends)


def shared(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def prompts(plan: TracePlan) -> list[tuple[int, ...]]:
    return [request.prompt for request in plan.workload.requests]


def test_prompts_of_the_real_trace_share_what_their_ids_say() -> None:
    plan = plan_trace(spec(), fixture("mooncake_excerpt.jsonl"), setting())
    made = prompts(plan)
    assert [len(prompt) for prompt in made] == [2012, 915, 2651, 3024]
    # all share block 0; the third and the fourth share [0, 1541, 1542, 1543, 1544]: 5 x 512
    assert [shared(made[0], prompt) for prompt in made[1:]] == [512, 512, 512]
    assert shared(made[2], made[3]) == 2560
    assert [request.hit_tokens for request in plan.workload.requests] == [0, 512, 512, 2560]
    assert "an endless cache would find 3584 of 8602 prompt tokens, 41.7%" in plan.lines[-1]


def test_requests_are_due_and_as_long_as_recorded() -> None:
    requests = plan_trace(spec(), fixture("mooncake_excerpt.jsonl"), setting()).workload.requests
    assert [request.scheduled_at_s for request in requests] == [0.0, 0.0, 18.0, 45.0]
    assert [request.max_tokens for request in requests] == [354, 355, 366, 111]
    assert [request.index for request in requests] == [0, 1, 2, 3]
    assert {(request.stop, request.timeout_s, request.traffic_class) for request in requests} == {("forced", 60.0, "w")}


def test_a_scale_of_lengths_leaves_sharing_exact() -> None:
    # 512 x 1/16 = 32 tokens a block; 2012 = 3 x 512 + 476, and 476 / 16 = 29.75: 96 + 30
    plan = plan_trace(spec(length_scale=0.0625), fixture("mooncake_excerpt.jsonl"), setting())
    made = prompts(plan)
    assert [len(prompt) for prompt in made] == [126, 58, 166, 189]
    assert [request.hit_tokens for request in plan.workload.requests] == [0, 32, 32, 160]
    # answers 354, 355, 366, 111 over 16, rounded up
    assert [request.max_tokens for request in plan.workload.requests] == [23, 23, 23, 7]
    whole = plan_trace(spec(length_scale=0.0625, output_scale=1), fixture("mooncake_excerpt.jsonl"), setting())
    assert [request.max_tokens for request in whole.workload.requests] == [354, 355, 366, 111]


def test_a_partial_last_block_is_cut_and_shared_no_further() -> None:
    rows = (row(1, 600, (0, 1)), row(2, 1100, (0, 1, 2)), row(3, 700, (0, 1)))
    made = prompts(plan_trace(spec(), of_rows(*rows), setting()))
    # the first ends 88 tokens into block 1; the third goes on in it to 700
    assert [shared(made[0], made[1]), shared(made[0], made[2]), shared(made[1], made[2])] == [600, 600, 700]


def test_the_same_id_after_another_block_is_another_text() -> None:
    plan = plan_trace(spec(), of_rows(row(1, 1024, (0, 5)), row(2, 1024, (1, 5))), setting())
    assert [request.hit_tokens for request in plan.workload.requests] == [0, 0]


def test_blocks_after_another_block_are_told_apart_among_themselves() -> None:
    # three tokens to begin with, so that two blocks which do not know of each other begin alike in one case of three
    trace = of_rows(row(1, 1024, (0, 5)), row(2, 1024, (1, 5)), row(3, 1024, (1, 6)))
    for seed in range(12):
        plan = plan_trace(spec(), trace, setting(tokens=(0, 1, 2) * 400, seed=seed))
        assert [request.hit_tokens for request in plan.workload.requests] == [0, 0, 512]


def test_no_block_is_lost_by_a_small_scale() -> None:
    # 1/10 and 2/10 of a token are one token and another one
    assert scaled_ends((1, 2, 25, 30), Fraction(1, 10)) == (1, 2, 3, 4)


def test_rows_without_ids_share_nothing() -> None:
    rows = [TraceRow(line, 0, 300, 4) for line in range(1, 60)]
    plan = plan_trace(spec(format="azure"), of_rows(*rows), setting())
    assert {request.hit_tokens for request in plan.workload.requests} == {0}


def test_more_beginnings_than_the_corpus_has_tokens_share_no_more_than_one() -> None:
    # 3 distinct tokens in an order with 9 distinct pairs: three prompts begin with different tokens, the next six with
    # pairs that differ, so they share at most their first token; a tenth beginning there is none
    tokens = (0, 0, 1, 1, 2, 2, 0, 2, 1, 0)
    rows = [TraceRow(line, 0, 30, 4) for line in range(1, 10)]
    plan = plan_trace(spec(format="azure"), of_rows(*rows), setting(tokens=tokens))
    assert sorted(request.hit_tokens or 0 for request in plan.workload.requests) == [0, 0, 0, 1, 1, 1, 1, 1, 1]
    with pytest.raises(SpecError, match="9 beginnings; the trace has more"):
        plan_trace(spec(format="azure"), of_rows(*rows, TraceRow(10, 0, 30, 4)), setting(tokens=tokens))


def test_blocks_that_follow_each_other_are_not_the_same_text() -> None:
    [prompt] = prompts(plan_trace(spec(), of_rows(row(1, 20 * 512, tuple(range(20)))), setting()))
    # twenty draws of a thousand beginnings: two of them meet in one case of five, seven of them never
    assert len({prompt[begin : begin + 8] for begin in range(0, len(prompt), 512)}) > 13


def test_a_small_trace_shares_nothing_in_a_large_corpus() -> None:
    corpus = range(30_000)  # more beginnings than are looked for
    rows = [TraceRow(line, 0, 30, 4) for line in range(1, 100)]
    plan = plan_trace(spec(format="azure"), of_rows(*rows), setting(tokens=corpus))
    assert {request.hit_tokens for request in plan.workload.requests} == {0}


def test_a_prompt_longer_than_the_corpus_goes_on_at_its_beginning() -> None:
    trace = of_rows(TraceRow(1, 0, 25, 4))
    made = prompts(plan_trace(spec(format="azure"), trace, setting(tokens=tuple(range(10)))))[0]
    assert len(made) == 25
    assert all(after == (before + 1) % 10 for before, after in pairwise(made))


def test_the_texts_are_the_seeds_and_no_window_limit_or_time_scale_changes_them() -> None:
    trace = fixture("mooncake_excerpt.jsonl")
    whole = prompts(plan_trace(spec(), trace, setting()))
    assert prompts(plan_trace(spec(), trace, setting())) == whole
    assert prompts(plan_trace(spec(window={"from": "10s"}, time_scale=3), trace, setting())) == whole[2:]
    assert prompts(plan_trace(spec(limit=1), trace, setting())) == whole[:1]
    assert prompts(plan_trace(spec(), trace, setting(seed=8))) != whole


def test_a_window_is_played_from_its_begin_and_scaled() -> None:
    trace = fixture("mooncake_excerpt.jsonl")
    plan = plan_trace(spec(window={"from": "10s", "to": "40s"}, time_scale=0.5), trace, setting())
    # the third request comes at 18 s: (18 - 10) x 0.5; the window lasts (40 - 10) x 0.5
    assert [request.scheduled_at_s for request in plan.workload.requests] == [4.0]
    assert plan.workload.duration_s == 15.0
    with pytest.raises(SpecError, match="no request lies in the window"):
        plan_trace(spec(window={"from": "50s"}), trace, setting())


def test_an_open_window_ends_a_mean_gap_after_its_last_request() -> None:
    trace = fixture("mooncake_excerpt.jsonl")
    # four requests in 45 s: 45 + 45 / 3
    assert plan_trace(spec(), trace, setting()).workload.duration_s == 60.0
    # the limit ends it before the window does: 18 + 18 / 2
    limited = plan_trace(spec(limit=3, window={"from": "0s", "to": "1000s"}), trace, setting())
    assert limited.workload.duration_s == 27.0
    assert plan_trace(spec(limit=2), trace, setting()).workload.duration_s == 1.0


def test_requests_longer_than_the_context_are_named_before_anything_is_sent() -> None:
    case = json.loads((TRACES / "T05_mooncake_oversize.expected.json").read_text())
    trace, short = fixture("T05_mooncake_oversize.jsonl"), setting(max_model_len=case["server_max_model_len"])
    with pytest.raises(SpecError) as refused:
        plan_trace(spec(), trace, short)
    # 4000 + 100 and 2040 + 16 = 2056 exceed 2048; 2032 + 16 fits exactly
    assert "t.jsonl:2: 4000 + 100 tokens are more than the context of 2048" in str(refused.value)
    assert "t.jsonl:3: 2040 + 16 tokens are more than the context of 2048" in str(refused.value)
    assert str(refused.value).startswith("2 problems")
    plan = plan_trace(spec(too_long="skip"), trace, short)
    assert (plan.planned, len(plan.workload.requests), plan.not_sent, plan.workload.cut.too_long) == (4, 2, 2, 2)
    assert any("4 planned = 2 to send + 2 not sent (longer than the context of 2048 tokens: lines 2, 3)" in line
               for line in plan.lines)


def test_requests_longer_than_the_context_may_be_cut_and_are_counted() -> None:
    trace = fixture("T05_mooncake_oversize.jsonl")
    plan = plan_trace(spec(too_long="cut"), trace, setting(max_model_len=2048))
    whole = plan_trace(spec(), trace, setting())
    assert [(len(one.prompt), one.max_tokens) for one in plan.workload.requests] == [
        (512, 16), (1948, 100), (2032, 16), (2032, 16)
    ]
    assert (plan.workload.cut.inputs, plan.workload.cut.outputs, plan.not_sent) == (2, 0, 0)
    assert all(shared(one, other) == len(one) for one, other in zip(prompts(plan), prompts(whole), strict=True))
    assert "  cut to the context: 2 prompts, 0 answers" in plan.lines
    tiny = plan_trace(spec(too_long="cut"), trace, setting(max_model_len=50)).workload
    assert [(len(one.prompt), one.max_tokens) for one in tiny.requests] == [(34, 16), (1, 49), (34, 16), (34, 16)]
    assert tiny.cut.outputs == 1


def test_a_trace_of_which_nothing_fits_is_refused() -> None:
    with pytest.raises(SpecError, match="no request fits the context of 100 tokens"):
        plan_trace(spec(too_long="skip"), fixture("T05_mooncake_oversize.jsonl"), setting(max_model_len=100))


def test_requests_may_be_split_into_short_and_long() -> None:
    plan = plan_trace(spec(long_above=2012), fixture("mooncake_excerpt.jsonl"), setting())
    assert [request.traffic_class for request in plan.workload.requests] == ["short", "short", "long", "long"]


def test_the_lines_tell_file_digest_rate_warnings_and_scales() -> None:
    trace = replace(fixture("mooncake_excerpt.jsonl"), notes=("a note",)).warned("careful")
    lines = plan_trace(spec(timing="dequantised", quantum="3s", time_scale=2), trace, setting()).lines
    assert lines[0] == "warning: careful"
    assert lines[1] == "trace t (mooncake), sha256 ab12"
    # 4 requests in 45 s
    assert lines[2] == "  4 requests over 45 s, 0.08889 a second, time stamps in ms"
    assert lines[3] == "  a note"
    assert "over the 3 s that follow each" in lines[4]
    assert "times x 2, prompts x 1, answers x 1" in lines[5]


IDS = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=4), min_size=1, max_size=12)


@settings(max_examples=30, deadline=None)
@given(ids=IDS, last=st.integers(1, 64), scale=st.sampled_from([1, 0.5, 0.3, 0.1, 0.05]), seed=st.integers(0, 99))
def test_two_prompts_share_their_leading_blocks_and_no_token_more(
    ids: list[list[int]], last: int, scale: float, seed: int
) -> None:
    rows = [row(line, (len(one) - 1) * 64 + last, tuple(one), block=64) for line, one in enumerate(ids, start=1)]
    made = prompts(plan_trace(spec(length_scale=scale), of_rows(*rows), setting(seed=seed)))
    for number, (one, prompt) in enumerate(zip(ids, made, strict=True)):
        for other, longer in zip(ids[:number], made[:number], strict=True):
            blocks = shared(tuple(one), tuple(other))
            # where all ids of the shorter one are shared, its whole prompt is, though its last block is partial
            whole = blocks == min(len(one), len(other))
            most = min(len(prompt), len(longer)) if whole else len(longer)
            exact = -(-blocks * 64 * round(scale * 100) // 100)
            assert shared(prompt, longer) == (most if whole else exact)
