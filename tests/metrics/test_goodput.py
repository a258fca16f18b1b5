"""Goodput, by hand on ten requests."""

from typing import Any

import msgspec
import pytest

from testbed.journal.events import Event, RequestEnded, RequestPlanned
from testbed.journal.manifest import ArmFacts, GoldenAnswer, Limits
from testbed.journal.reader import Journal
from testbed.journal.run import Run
from testbed.metrics.analysis import Analysis
from testbed.metrics.declaration import Estimate
from testbed.metrics.goodput import goodput_ratio, goodput_rps, judge, lost_by_cause
from testbed.metrics.table import UNCHECKED, summarise
from testbed.metrics.throughput import finished_rps, offered_rps, output_tokens_per_s, sent_rps
from testbed.missing import Missing
from tests.synthetic import event, manifest, ns

# outcome, TTFT and end in ms, output tokens: limits are 200 ms to the first token and 60 ms a token
CASES = (
    ("ok", 100, 500, 11),  # (500 - 100) / 10 = 40 ms: good
    ("ok", 150, 1150, 21),  # 1000 / 20 = 50 ms: good
    ("ok", 190, 2190, 41),  # 2000 / 40 = 50 ms: good
    ("ok", 210, 610, 11),  # 210 > 200: slow first token
    ("ok", 120, 1620, 21),  # 1500 / 20 = 75 ms > 60: slow tokens
    ("failed", None, 3, 0),
    ("timed_out", None, 30_000, 0),
    ("failed", 90, 140, 2),
    ("ok", 100, 100, 1),  # one token: judged by TTFT alone, good
    ("cancelled", None, 1000, 0),
)
ARM = ArmFacts(name="tier", tier="memory", probed=False, policy="recompute", attempts=1)


def run_of(golden: bool = True, limits: bool = True, cases: tuple[tuple[Any, ...], ...] = CASES) -> Run:
    """A run of one arm in which request k is due at k seconds."""
    found: list[Event] = []
    for k, (outcome, ttft_ms, end_ms, tokens) in enumerate(cases):
        one = f"demo-20260101-120000.tier.0.{k}"
        due = ns(100.0 + k)
        token_ns = None if ttft_ms is None else due + ttft_ms * 1_000_000
        found.append(event(
            RequestPlanned, 1.0, request_id=one, index=k, traffic_class="c", scheduled_at_s=float(k), prompt_tokens=9,
            max_tokens=64, stop="natural", timeout_s=30.0, prompt_key="k", measured=True,
        ))
        found.append(event(
            RequestEnded, 200.0, request_id=one, outcome=outcome, reason="", scheduled_at_ns=due, sent_at_ns=due,
            ended_at_ns=due + end_ms * 1_000_000, first_token_at_ns=token_ns, token_ids=[1] * tokens,
            last_token_at_ns=None if token_ns is None else due + end_ms * 1_000_000, usage_output_tokens=tokens,
        ))
    answers = {"k": GoldenAnswer(token_ids=[1] * 21, second_ids=[], gaps_nats=[], finish_reason="length")}
    facts = manifest(arms=[ARM], limits={"c": Limits(ttft_s=0.2, tpot_s=0.06, derivation="by hand")} if limits else {})
    return Run(facts, Journal(tuple(found)), answers if golden else {})


def test_each_request_is_good_or_lost_to_one_cause() -> None:
    view = Analysis(run_of(golden=False)).arm_view(ARM)
    assert lost_by_cause(view) == {
        "good": 4, "slow_first_token": 1, "slow_tokens": 1, "failed": 2, "timed_out": 1, "cancelled": 1,
    }


def test_goodput_counts_good_over_planned_and_over_the_window() -> None:
    view = Analysis(run_of(golden=False)).arm_view(ARM)
    ratio, rate = goodput_ratio(view), goodput_rps(view)
    assert isinstance(ratio, Estimate)
    assert isinstance(rate, Estimate)
    # 4 of 10; the window runs from 0 s to the timeout of request 6 at 6 + 30 = 36 s
    assert (ratio.value, ratio.n) == (0.4, 10)
    assert rate.value == pytest.approx(4 / 36)


def test_what_is_finished_counts_by_the_window_and_what_is_offered_and_sent_by_the_time_of_sending() -> None:
    view = Analysis(run_of()).arm_view(ARM)
    found = [compute(view) for compute in (offered_rps, sent_rps, finished_rps, output_tokens_per_s)]
    # due, and sent, once a second; 6 complete, 11 + 21 + 41 + 11 + 21 + 1 = 106 tokens of complete answers, in 36 s
    assert [one.value for one in found if isinstance(one, Estimate)] == pytest.approx([1.0, 1.0, 6 / 36, 106 / 36])


def test_a_wrong_answer_is_not_good_however_fast() -> None:
    # golden has 21 tokens: only the requests with 21 are right, and one of them is slow
    assert lost_by_cause(Analysis(run_of()).arm_view(ARM)) == {
        "good": 1, "wrong": 4, "slow_tokens": 1, "failed": 2, "timed_out": 1, "cancelled": 1,
    }


def test_an_answer_without_its_golden_one_is_lost_as_unchecked() -> None:
    run = run_of()
    partly = Run(run.manifest, run.journal, {"other": run.golden["k"]})
    assert {judge(view) for view in Analysis(partly).views if view.row.ok} == {"unchecked"}


def test_without_golden_goodput_says_outputs_unchecked() -> None:
    notes = {row.note for row in summarise(run_of(golden=False)) if row.metric.startswith("goodput")}
    assert notes == {UNCHECKED}


def test_without_limits_there_is_no_goodput_and_not_zero() -> None:
    found = goodput_ratio(Analysis(run_of(limits=False)).arm_view(ARM))
    assert found == Missing("no limits for c")


def test_an_arm_in_which_nothing_ended_has_no_rate() -> None:
    run = run_of(cases=())
    assert isinstance(goodput_rps(Analysis(run).arm_view(ARM)), Missing)
    assert isinstance(offered_rps(Analysis(run).arm_view(ARM)), Missing)


def limited(limits: Limits) -> Run:
    """The ten requests under other limits, outputs unchecked."""
    run = run_of(golden=False)
    return Run(msgspec.structs.replace(run.manifest, limits={"c": limits}), run.journal, {})


def test_a_limit_of_the_whole_answer_alone_asks_for_no_first_token() -> None:
    # complete answers take 500, 1150, 2190, 610, 1620 and 100 ms
    found = lost_by_cause(Analysis(limited(Limits(e2e_s=1.15, derivation="by hand"))).arm_view(ARM))
    assert (found["good"], found["slow_answer"], found["slow_first_token"]) == (4, 2, 0)


def test_an_answer_whose_tokens_nobody_counted_does_not_pass_a_limit_of_each_token() -> None:
    run = limited(Limits(tpot_s=0.06, derivation="by hand"))
    events = tuple(
        msgspec.structs.replace(one, usage_output_tokens=None, token_ids=[]) if isinstance(one, RequestEnded) else one
        for one in run.journal.events
    )
    found = lost_by_cause(Analysis(Run(run.manifest, Journal(events), {})).arm_view(ARM))
    assert (found["good"], found["tokens_unknown"]) == (0, 6)
