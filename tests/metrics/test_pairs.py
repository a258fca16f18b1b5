"""What the tier bought, what each fault cost, and what came of the hypothesis."""

from statistics import median

import msgspec
import pytest

from testbed.journal.events import Event, FaultApplied, RequestEnded
from testbed.journal.run import Run
from testbed.metrics.analysis import Analysis
from testbed.metrics.hypothesis import Finding, evaluate
from testbed.metrics.pairs import TTFT, control_of, fault_costs, pairs, tier_gains
from testbed.metrics.statistics import Ratio
from testbed.missing import Missing
from tests.synthetic import changed, demo_run, with_facts, without

DEMO = demo_run()


def test_pairs_are_the_same_planned_requests() -> None:
    found = pairs(Analysis(DEMO), TTFT, "tier", "no_tier", "long_doc")
    assert len(found) == 28
    assert all(first > 0 and second > 0 for first, second in found)


def test_a_request_that_failed_in_one_arm_has_no_pair() -> None:
    def victim(one: Event) -> bool:
        return isinstance(one, RequestEnded) and one.request_id.endswith(".no_tier.0.20")

    assert len(pairs(Analysis(changed(DEMO, victim, outcome="timed_out")), TTFT, "tier", "no_tier", "long_doc")) == 27


def test_the_tier_gain_is_told_for_each_class() -> None:
    gains = {gain.traffic_class: gain.ratio for gain in tier_gains(Analysis(DEMO))}
    assert set(gains) == {"long_doc", "short_chat"}
    documents = gains["long_doc"]
    assert isinstance(documents, Ratio)
    assert documents.low <= documents.value <= documents.high < 0.5


def test_a_hold_costs_its_length_and_recomputes_nothing() -> None:
    cost = next(one for one in fault_costs(Analysis(DEMO)) if one.arm == "held")
    assert (cost.control, cost.struck, cost.recomputed_tokens) == ("tier", 8, 0)
    assert not isinstance(cost.struck_ttft_s, Missing)
    assert not isinstance(cost.control_ttft_s, Missing)
    # held for 1 s, and nearly alone in the engine
    assert cost.struck_ttft_s - cost.control_ttft_s == pytest.approx(1.0, abs=0.1)


def test_an_eviction_is_compared_with_the_arm_that_holds_alike() -> None:
    analysis = Analysis(DEMO)
    cost = next(one for one in fault_costs(analysis) if one.arm == "evicted")
    assert cost.control == "held"
    # all that the 8 struck loads had promised, each a multiple of the block of 128
    lost = sum(load.load_bytes // 1000 for load in analysis.loads if load.arm == "evicted" and not load.ok)
    assert cost.recomputed_tokens == lost > 0


def test_an_eviction_is_compared_with_requests_that_its_control_struck_too() -> None:
    # 8 were struck in both; the control is made to have spared the first three of them
    struck = [one.request_id for one in DEMO.journal.select(FaultApplied, "held") if one.phase == "began"]
    run = without(DEMO, lambda one: isinstance(one, FaultApplied) and one.request_id in struck[:3])
    cost = next(one for one in fault_costs(Analysis(run)) if one.arm == "evicted")
    assert (cost.struck, cost.struck_in_both) == (8, 5)
    assert isinstance(cost.ratio, Ratio)
    assert cost.ratio.n == 5
    analysis = Analysis(run)
    there = [TTFT.compute(analysis.views_by_id[one]) for one in struck[3:]]
    assert cost.control_ttft_s == median(value for value in there if isinstance(value, float))


def test_an_eviction_whose_control_struck_nobody_has_no_cost() -> None:
    run = without(DEMO, lambda one: isinstance(one, FaultApplied) and one.arm == "held")
    cost = next(one for one in fault_costs(Analysis(run)) if one.arm == "evicted")
    assert (cost.struck, cost.struck_in_both) == (8, 0)
    assert isinstance(cost.ratio, Missing)
    assert cost.ratio.reason == "no request was struck in both arms"


def test_a_control_without_faults_strikes_nobody() -> None:
    cost = next(one for one in fault_costs(Analysis(DEMO)) if one.arm == "held")
    assert cost.struck_in_both is None


@pytest.mark.parametrize(
    "fields", [{"policy": "fail"}, {"attempts": 2}, {"load_deadline_s": 3.0}, {"settings": {"engine.seats": 4}}],
)
def test_an_arm_that_differs_by_more_than_the_fault_is_no_control(fields: dict[str, object]) -> None:
    arms = [msgspec.structs.replace(arm, **fields) if arm.name == "tier" else arm for arm in DEMO.manifest.arms]
    analysis = Analysis(with_facts(DEMO, arms=arms))
    assert [control_of(analysis, arm) for arm in analysis.arms[2:]] == [None, "held", None]


def test_an_arm_without_a_declared_control_is_compared_with_the_plain_tier() -> None:
    analysis = Analysis(DEMO)
    assert [control_of(analysis, arm) for arm in analysis.arms[2:]] == ["tier", "held", "tier"]


def claimed(run: Run, **fields: str) -> Finding:
    """The verdict over a hypothesis with some fields changed."""
    claim = run.manifest.hypothesis
    assert claim is not None
    found = evaluate(Analysis(with_facts(run, hypothesis=msgspec.structs.replace(claim, **fields))))
    assert isinstance(found, Finding)
    return found


def test_a_claim_that_holds_over_the_whole_interval_is_supported() -> None:
    found = claimed(DEMO, ratio="< 0.8")
    assert found.verdict == "supported"
    assert "n=28" in found.text


@pytest.mark.parametrize("ratio", ["< 0.06", "<0.01", "> 0.06", "> 2"])
def test_a_claim_whose_limit_the_interval_reaches_is_refuted(ratio: str) -> None:
    # the ratio of the demo is about 0.068, its interval 0.054 to 0.18
    assert claimed(DEMO, ratio=ratio).verdict == "refuted"


def test_a_claim_with_fewer_than_20_pairs_is_undecided() -> None:
    few = demo_run(documents=19)
    assert claimed(few).verdict == "undecided"
    assert "n=19" in claimed(few).text


def test_a_claim_about_an_unknown_metric_or_arm_is_undecided() -> None:
    assert claimed(DEMO, metric="speed").verdict == "undecided"
    assert claimed(DEMO, over="nowhere").verdict == "undecided"


def test_an_experiment_without_a_claim_has_no_verdict() -> None:
    assert isinstance(evaluate(Analysis(with_facts(DEMO, hypothesis=None))), Missing)
