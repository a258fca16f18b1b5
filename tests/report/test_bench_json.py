"""A load as the JSON of `vllm bench serve`: four requests, each number by hand."""

import json
import math
from typing import Any

import msgspec
import pytest

from testbed.checks.verdict import Verdict
from testbed.errors import JournalError
from testbed.journal.events import ArmBegan, Event, RequestEnded, RequestPlanned, RequestSent
from testbed.journal.manifest import ArmFacts, Limits, LoadFacts
from testbed.journal.reader import Journal
from testbed.journal.run import Run
from testbed.metrics.analysis import Analysis
from testbed.metrics.table import summarise
from testbed.report.bench_json import OURS, bench_json, file_name
from tests.synthetic import event, manifest, ns

ARM = ArmFacts(name="load", tier="none", probed=False, policy="none", attempts=0)
ZERO_S = 100.0
RUN = "load-20260101-120000"

# due and sent (s from zero); chunks as (s from zero, tokens); outcome. Prompts: 9 tokens planned, 10 by the server.
# 0: TTFT 100 ms, whole 400 ms, gaps 100 and 200 ms, 3 tokens: TPOT 300 / 2 = 150 ms
# 1: sent 2 ms late; TTFT 200 ms, whole 200 ms, 1 token: no TPOT, no gap
# 2: status 500
# 3: TTFT 50 ms, whole 150 ms, one gap of 100 ms, 4 tokens: TPOT 100 / 3 = 33.3 ms
CASES: tuple[tuple[float, float, tuple[tuple[float, int], ...], str], ...] = (
    (0.0, 0.0, ((0.1, 1), (0.2, 1), (0.4, 1)), "ok"),
    (1.0, 1.002, ((1.202, 1),), "ok"),
    (2.0, 2.0, (), "failed"),
    (3.0, 3.0, ((3.05, 2), (3.15, 2)), "ok"),
)
WINDOW_S = 3.16  # the last answer ends 10 ms after its last chunk


def run_of(facts: LoadFacts | None = None, limits: Limits | None = None, tokens_told: bool = True) -> Run:
    """The run of the four requests."""
    found: list[Event] = [event(ArmBegan, ZERO_S, arm="load", zero_at_ns=ns(ZERO_S), probed=False, policy="none")]
    for index, (due_s, sent_s, chunks, outcome) in enumerate(CASES):
        same: dict[str, Any] = {"request_id": f"{RUN}.load.0.{index}", "arm": "load"}
        moments = [ns(ZERO_S + at_s) for at_s, _ in chunks]
        found.append(event(
            RequestPlanned, 99.0, **same, index=index, traffic_class="random", scheduled_at_s=due_s, prompt_tokens=9,
            max_tokens=9, stop="natural", timeout_s=60.0, prompt_key="k", measured=True,
        ))
        due: dict[str, Any] = {"scheduled_at_ns": ns(ZERO_S + due_s), "sent_at_ns": ns(ZERO_S + sent_s)}
        found.append(event(RequestSent, ZERO_S + sent_s, **same, **due))
        found.append(event(
            RequestEnded, 104.0, **same, **due, outcome=outcome, reason="" if moments else "failed/http_500",
            ended_at_ns=(moments[-1] if moments else ns(ZERO_S + sent_s)) + 10_000_000,
            first_token_at_ns=moments[0] if moments else None, last_token_at_ns=moments[-1] if moments else None,
            chunk_at_ns=moments, chunk_tokens=[tokens for _, tokens in chunks] if tokens_told else [],
            usage_prompt_tokens=10 if moments else None, error=None if moments else "out of memory",
        ))
    asked = facts if facts is not None else LoadFacts(
        url="http://127.0.0.1:8000", path="/v1/completions", prompts="ids", lengths="tokens", request_rate=1.0,
        burstiness=1.0, arrival="poisson", percentiles=(50.0, 99.0, 99.9),
    )
    told = manifest(
        run=RUN, arms=[ARM], kind="load", load=asked, model="m/stub",
        limits={} if limits is None else {"random": limits},
    )
    return Run(told, Journal(tuple(found)), {})


def content(run: Run, *, detailed: bool = False) -> dict[str, Any]:
    """The file of a run, through JSON as strict as a reader may be."""
    verdicts = [Verdict("outcomes_add_up", "PASS", "4 planned = ok 3, failed 1")]
    made = bench_json(Analysis(run), verdicts, summarise(run), detailed=detailed)
    return dict(json.loads(json.dumps(made, allow_nan=False)))


def test_the_totals_are_those_of_vllms_formulas() -> None:
    found = content(run_of(limits=Limits(ttft_s=0.12, e2e_s=1.0, derivation="by hand")))
    assert found["duration"] == pytest.approx(WINDOW_S)
    assert (found["completed"], found["failed"], found["num_prompts"]) == (3, 1, 4)
    # 3 complete answers to 10 tokens each; 3 + 1 + 4 = 8 tokens came back
    assert (found["total_input_tokens"], found["total_output_tokens"]) == (30, 8)
    assert found["request_throughput"] == pytest.approx(3 / WINDOW_S)
    assert found["output_throughput"] == pytest.approx(8 / WINDOW_S)
    assert found["total_token_throughput"] == pytest.approx(38 / WINDOW_S)
    # inside 120 ms to the first token: request 0 and 3
    assert found["request_goodput"] == pytest.approx(2 / WINDOW_S)
    # chunks in the first second: 100, 200 and 400 ms; nobody shares a second
    assert (found["max_output_tokens_per_s"], found["max_concurrent_requests"]) == (3.0, 1)


def test_latencies_count_from_sending_and_gaps_between_chunks() -> None:
    found = content(run_of())
    # TTFT of 100, 200, 50 ms: mean 350 / 3; squared distances 277.8 + 6944.4 + 4444.4 over 3 = 3888.9
    assert found["mean_ttft_ms"] == pytest.approx(350 / 3)
    assert found["median_ttft_ms"] == found["p50_ttft_ms"] == pytest.approx(100.0)
    assert found["std_ttft_ms"] == pytest.approx(math.sqrt(3888.889), rel=1e-6)
    # rank 0.99 x 2 = 1.98 between 100 and 200
    assert found["p99_ttft_ms"] == pytest.approx(198.0)
    assert found["p99.9_ttft_ms"] == pytest.approx(199.8)
    # the answer of one token has no TPOT: (150 + 33.3) / 2
    assert found["mean_tpot_ms"] == pytest.approx((150 + 100 / 3) / 2)
    # one gap for each pair of chunks, whatever they hold: 100, 200, 100 ms
    assert found["mean_itl_ms"] == pytest.approx(400 / 3)
    assert found["mean_e2el_ms"] == pytest.approx((400 + 200 + 150) / 3)


def test_goodput_without_limits_is_null_and_not_zero() -> None:
    assert content(run_of())["request_goodput"] is None


def test_what_the_server_did_not_tell_is_null_and_not_zero() -> None:
    found = content(run_of(tokens_told=False))
    assert (found["total_output_tokens"], found["output_throughput"], found["mean_tpot_ms"]) == (None, None, None)
    assert found["rtfx"] is None
    assert found["completed"] == 3


def test_details_have_an_entry_for_each_request() -> None:
    plain, found = content(run_of()), content(run_of(), detailed=True)
    assert "ttfts" not in plain
    assert found["ttfts"] == [pytest.approx(0.1), pytest.approx(0.2), None, pytest.approx(0.05)]
    assert found["itls"] == [[pytest.approx(0.1), pytest.approx(0.2)], [], None, [pytest.approx(0.1)]]
    assert found["output_lens"] == [3, 1, None, 4]
    assert found["input_lens"] == [10, 10, 9, 10]
    assert found["errors"] == ["", "", "failed/http_500: out of memory", ""]
    assert found["start_times"] == [100.0, pytest.approx(101.002), 102.0, 103.0]
    assert found["latencies"] == [pytest.approx(0.4), pytest.approx(0.2), None, pytest.approx(0.15)]
    assert found["queue_times"] == [0.0, pytest.approx(0.002), None, 0.0]


def test_the_head_says_what_was_asked_for() -> None:
    found = content(run_of())
    assert (found["model_id"], found["request_rate"], found["burstiness"]) == ("m/stub", 1.0, 1.0)
    assert found["date"] == "20260101-120000"
    assert (found["backend"], found["max_concurrency"], found["tokenizer_id"]) == ("openai", None, None)
    closed = content(run_of(LoadFacts(
        url="http://h:1", path="/v1/chat/completions", prompts="chat", lengths="words", max_concurrency=4,
        arrival="closed", percentile_metrics=("client_queue_time",),
    )))
    assert (closed["request_rate"], closed["max_concurrency"], closed["burstiness"]) == ("inf", 4, None)
    assert closed["backend"] == "openai-chat"
    # request 1 went out 2 ms after its time, the others at it
    assert closed["mean_client_queue_time_ms"] == pytest.approx(2 / 3)
    assert "mean_ttft_ms" not in closed


def test_a_request_that_a_cap_held_back_waited_from_its_planned_time() -> None:
    run = run_of()
    # request 3 was wanted at 2.5 s, and a place was free at 3 s
    events = tuple(
        msgspec.structs.replace(one, scheduled_at_s=2.5) if isinstance(one, RequestPlanned) and one.index == 3 else one
        for one in run.journal.events
    )
    assert content(Run(run.manifest, Journal(events), {}))["queue_times"][3] == pytest.approx(0.5)


def test_the_file_is_called_what_vllm_would_call_it() -> None:
    assert file_name(content(run_of())) == "openai-1.0qps-stub-20260101-120000.json"
    closed = LoadFacts(
        url="http://h:1", path="/v1/completions", prompts="ids", lengths="tokens", max_concurrency=4, arrival="closed",
        label="mine",
    )
    assert file_name(content(run_of(closed))) == "mine-infqps-concurrency4-stub-20260101-120000.json"
    ramp = LoadFacts(
        url="http://h:1", path="/v1/completions", prompts="ids", lengths="tokens", arrival="ramp",
        ramp_up_strategy="linear", ramp_up_start_rps=1.0, ramp_up_end_rps=9.0,
    )
    assert file_name(content(run_of(ramp))) == "openai-ramp-up-linear-1qps-9qps-stub-20260101-120000.json"


def test_our_own_numbers_count_from_the_schedule_and_say_why_one_is_missing() -> None:
    found = content(run_of())[OURS]
    rows = {(row["metric"], row["class"], row["statistic"]): row for row in found["metrics"]}
    # from the schedule: 100, 202, 50 ms
    assert rows["ttft_s", "all", "mean"]["value"] == pytest.approx(0.352 / 3)
    assert rows["ttft_sent_s", "random", "p50"]["value"] == pytest.approx(0.1)
    assert rows["ttft_s", "all", "p99"]["value"] is None
    assert "n=3" in rows["ttft_s", "all", "p99"]["reason"]
    assert found["outcomes"] == {"ok": 3, "failed": 1}
    assert found["reasons"] == {"failed/http_500": 1}
    assert found["outputs"] == "outputs unchecked"
    assert found["checks"] == [{"check": "outcomes_add_up", "status": "PASS", "text": "4 planned = ok 3, failed 1"}]


def test_a_run_that_is_no_load_and_an_unknown_metric_are_refused() -> None:
    with pytest.raises(JournalError, match="is no load"):
        bench_json(Analysis(Run(manifest(), Journal(()), {})), [], [])
    odd = LoadFacts(
        url="http://h:1", path="/v1/completions", prompts="ids", lengths="tokens", percentile_metrics=("tftt",),
    )
    with pytest.raises(JournalError, match="'tftt' is no metric; known are ttft, tpot, itl, e2el"):
        content(run_of(odd))
