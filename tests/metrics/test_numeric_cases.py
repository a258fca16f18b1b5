"""Cases in which published tools gave wrong numbers: inputs and right answers are in `tests/fixtures/numeric`."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from testbed.journal.events import Event, RequestEnded, RequestPlanned
from testbed.journal.manifest import ArmFacts, Limits
from testbed.journal.reader import Journal
from testbed.journal.run import Run
from testbed.metrics.analysis import Analysis
from testbed.metrics.attainment import attainment_ratio
from testbed.metrics.declaration import Estimate
from testbed.metrics.goodput import goodput_rps, judge
from testbed.metrics.latency import e2e_s, tpot_s
from testbed.metrics.outcomes import count_outcomes
from testbed.metrics.statistics import statistic
from testbed.metrics.table import summarise
from testbed.metrics.throughput import finished_rps, offered_rps, output_tokens_per_s, sent_rps
from testbed.missing import Missing
from tests.loads import load_run, request_id
from tests.synthetic import event, manifest, ns

NUMERIC = Path(__file__).parents[1] / "fixtures" / "numeric"
ARM = ArmFacts(name="tier", tier="none", probed=False, policy="recompute", attempts=1)
ENDS = ("ended_at_ns", "first_token_at_ns", "last_token_at_ns")
OUTCOMES = {
    "ok": ("ok", ""), "http_500": ("failed", "failed/http_500"), "timeout": ("timed_out", "timed_out/no_token"),
    "error_in_stream": ("failed", "failed/error_in_stream"),
    "cancelled_at_run_end": ("cancelled", "cancelled/no_token"),
}


def case(name: str) -> dict[str, Any]:
    """One case: its inputs, and what is expected of them."""
    return dict(json.loads((NUMERIC / name).read_text()))


def run_of(record: dict[str, Any]) -> list[Event]:
    """The events of one request of a case."""
    one, due = f"demo-20260101-120000.tier.0.{record['id']}", ns(100 + record["scheduled_s"])
    ttft_ms, end_ms = record["ttft_ms"], record["e2e_ms"]
    token_ns = None if ttft_ms is None else due + round(ttft_ms * 1e6)
    end_ns = due if end_ms is None else due + round(end_ms * 1e6)
    outcome, reason = OUTCOMES[record["outcome"]]
    return [
        event(
            RequestPlanned, 1.0, request_id=one, index=record["id"], traffic_class="c",
            scheduled_at_s=record["scheduled_s"], prompt_tokens=9, max_tokens=64, stop="natural", timeout_s=30.0,
            prompt_key="k", measured=True,
        ),
        event(
            RequestEnded, 200.0, request_id=one, outcome=outcome, reason=reason, scheduled_at_ns=due, sent_at_ns=due,
            ended_at_ns=end_ns, first_token_at_ns=token_ns, last_token_at_ns=None if token_ns is None else end_ns,
            usage_output_tokens=record["output_tokens"],
        ),
    ]


def failures() -> tuple[dict[str, Any], Analysis]:
    """The case of ten requests of which three fail and one is cut off by the end of the run."""
    given = case("N01_failures_and_goodput.json")
    events = tuple(one for record in given["records"] for one in run_of(record))
    limits = Limits(ttft_s=given["slo"]["ttft_ms"] / 1e3, tpot_s=given["slo"]["tpot_ms"] / 1e3, derivation="case")
    return given["expect"], Analysis(Run(manifest(arms=[ARM], limits={"c": limits}), Journal(events), {}))


def test_failures_are_counted_apart_and_enter_no_latency() -> None:
    expect, analysis = failures()
    counts = count_outcomes(view.row for view in analysis.views)
    assert len(analysis.views) == expect["planned"] == 10
    assert counts["ok"] == expect["succeeded"]
    assert counts["failed"] + counts["timed_out"] == expect["failed"]
    assert counts["cancelled"] == expect["cancelled_by_run_end"]
    median = next(one for one in summarise(analysis.run) if (one.metric, one.statistic) == ("ttft_s", "p50"))
    assert median.value == pytest.approx(expect["ttft_ms_median"] / 1e3)
    assert median.n == 6


def test_goodput_has_a_stated_denominator() -> None:
    expect, analysis = failures()
    good = [view.row.planned.index for view in analysis.views if judge(view) == "good"]
    assert good == expect["meets_slo_ids"]
    view = replace(analysis.arm_view(ARM), window_s=10.0)
    rate, share = goodput_rps(view), attainment_ratio(view)
    assert isinstance(rate, Estimate)
    assert rate.value == pytest.approx(expect["goodput_rps"])
    # 4 good of 9: failures count against it, what the end of the run cut off does not
    assert isinstance(share, Estimate)
    assert share.value == pytest.approx(4 / 9)
    assert share.n == 9


def test_tokens_of_broken_answers_are_no_throughput() -> None:
    _, analysis = failures()
    found = output_tokens_per_s(replace(analysis.arm_view(ARM), window_s=10.0))
    # 11 + 21 + 41 + 11 + 21 + 1 = 106 of complete answers; the 2 of the error in the stream are not among them
    assert isinstance(found, Estimate)
    assert found.value == pytest.approx(10.6)


def test_a_percentile_of_few_samples_is_not_resolved_and_names_its_n() -> None:
    given = case("N02_few_samples.json")
    three, ten = [float(one) for one in given["samples_ms"]], [float(one) for one in given["ten"]]
    assert statistic(three, "p50") == given["expect"]["p50_of_three"]
    assert statistic(ten, "p90") == pytest.approx(given["expect"]["p90_of_ten"]["linear"])
    for values, name in ((three, "p99"), (ten, "p95"), (ten, "p99")):
        found = statistic(values, name)
        assert isinstance(found, Missing)
        assert f"n={len(values)}" in found.reason


def test_tokens_are_counted_by_the_server_not_by_chunks_or_by_text() -> None:
    given = case("N04_token_counts.json")
    asked, expect = given["request"], given["expect"]
    record = {
        "id": 1, "scheduled_s": 0.0, "outcome": "ok", "ttft_ms": asked["ttft_ms"], "e2e_ms": asked["e2e_ms"],
        "output_tokens": asked["usage_completion_tokens"],
    }
    row = Analysis(Run(manifest(arms=[ARM], limits={}), Journal(tuple(run_of(record))), {})).views[0].row
    assert row.output_tokens == expect["output_tokens"]
    assert tpot_s(row) == pytest.approx(expect["tpot_ms"] / 1e3)


def test_a_freeze_of_the_server_is_in_the_tail_since_latency_counts_from_the_schedule() -> None:
    given = case("N05_open_loop_stall.json")
    # ten a second for ten seconds; what is due from 3.0 to 4.9 s waits until 5.0 s, and each answer takes 20 ms
    due = [k / 10 for k in range(100)]
    ends = [ns(100 + max(at_s, 5.0 if 3.0 <= at_s < 5.0 else 0.0) + 0.02) for at_s in due]
    run = load_run(due, due)
    last = {request_id(k): ends[k] for k in range(100)}
    events = tuple(
        one if not isinstance(one, RequestEnded)
        else msgspec.structs.replace(one, **dict.fromkeys(ENDS, last[one.request_id]))
        for one in run.journal.events
    )
    analysis = Analysis(Run(run.manifest, Journal(events), {}))
    values = [value for view in analysis.views if not isinstance(value := e2e_s(view.row), Missing)]
    assert len(values) == given["hand_calculation"]["requests"]
    assert statistic(values, "p50") == pytest.approx(given["hand_calculation"]["p50_ms"] / 1e3)
    # 80 of 20 ms, then 120, 220, ... 2,020: rank 99 x 0.95 = 94.05, so 1,520 + 0.05 x 100 ms
    assert statistic(values, "p95") == pytest.approx(1.525)
    assert max(values) == pytest.approx(given["hand_calculation"]["max_ms"] / 1e3)
    view = analysis.arm_view(run.manifest.arms[0])
    # three figures: 99 gaps in 9.9 s offered and sent; 100 answers in 9.92 s
    rates = [compute(view) for compute in (offered_rps, sent_rps, finished_rps)]
    assert [one.value for one in rates if isinstance(one, Estimate)] == pytest.approx([10.0, 10.0, 100 / 9.92])
