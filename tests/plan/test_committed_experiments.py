"""Every committed experiment can be planned on a machine like the one that CI has, and says what its load is."""

from pathlib import Path

import pytest

from testbed.experiment.faults import refuse_impossible_faults
from testbed.experiment.specs import read_experiment
from testbed.plan.experiment import ExperimentPlan, plan_experiment
from testbed.plan.facts import Facts, MachineFacts, ModelFacts
from testbed.plan.text import plan_text
from testbed.workload.scale import Speed

ROOT = Path(__file__).parent.parent.parent
EXPERIMENTS = sorted(path.stem for path in (ROOT / "configs" / "experiments").glob("*.yaml"))
FACTS = Facts(
    ModelFacts("m", "models/m", "float32", 46_080, 8192),
    MachineFacts("python", "lmcache", "redis-server", frozenset(), 20 * 2**30, 8 * 2**30, 2),
    Speed(((64, 0.2), (512, 1.6)), 0.06),
    tuple(range(3, 40_000)),
)


def planned(name: str) -> ExperimentPlan:
    specs = read_experiment(ROOT / "configs" / "experiments" / f"{name}.yaml", "cpu", {})
    return plan_experiment(specs, FACTS)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_committed_experiment_can_be_planned(name: str) -> None:
    plan = planned(name)
    refuse_impossible_faults(plan)
    assert set(plan.limits) == {one.traffic_class for one in plan.workload.requests}
    # the engine's own memory holds the longest request, and several of them
    assert plan.kv.tokens >= 2 * plan.max_model_len


def test_the_text_of_the_plan_tells_how_sessions_arrive_and_what_is_in_the_working_set() -> None:
    plan = planned("serving_128_128")
    text = plan_text(plan, ())
    assert f"sessions arrive at {2 * plan.scale.rate_ratio:.4g}/s, poisson; shares: 1 text" in text
    assert "open-loop: sends follow the schedule, whatever the answers do" in text
    # 200 prompts of 31 tokens and as many answers: 12,400 tokens, of which a fifth is 2,480, 38.75 blocks of 64
    assert "engine KV: 39 blocks x 64 tokens" in text
    assert "distinct prompts and answers: 12400 tokens" in text


def test_the_text_of_the_plan_tells_the_rates_of_each_class_and_each_step() -> None:
    demo = planned("demo")
    assert f"sessions of long_doc arrive at {0.25 * demo.scale.rate_ratio:.4g}/s, poisson" in plan_text(demo, ())
    sweep = planned("serving_sweep")
    rates = ", ".join(f"{step * sweep.scale.rate_ratio:.4g}/s for 80 s" for step in range(1, 6))
    assert f"sessions arrive in steps: {rates}; shares: 1 text" in plan_text(sweep, ())
