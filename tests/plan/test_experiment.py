"""An experiment made concrete, without an engine: arms, blocks, commands, refusals."""

from dataclasses import replace
from typing import Any

import pytest

from testbed.errors import DeployError, SpecError
from testbed.experiment.faults import refuse_impossible_faults
from testbed.plan.deployment import plan_deployment
from testbed.plan.experiment import ExperimentPlan, ExperimentSpecs, plan_experiment
from testbed.plan.facts import Facts, MachineFacts, ModelFacts
from testbed.plan.site import Deployable, Site
from testbed.plan.text import plan_text
from testbed.spec.experiment import Experiment
from testbed.spec.machine import Hardware, Slo
from testbed.spec.topology import Topology
from testbed.spec.workload import Workload
from testbed.workload.scale import Speed

LMCACHE = {"kind": "lmcache", "memory": "1GiB", "load_deadline": "2s", "backing": {"kind": "redis", "memory": "512MiB"}}
WORKLOAD: dict[str, Any] = {
    "name": "w",
    "duration": "20s",
    "classes": {
        "chat": {
            "arrival": {"process": "poisson", "rate": 0.1},
            "input": {"fixed": 30},
            "output": {"fixed": 16},
            "stop": "forced",
            "timeout": "60s",
        },
        "doc": {
            "arrival": {"process": "poisson", "rate": 0.3},
            "input": {"fixed": 24},
            "output": {"fixed": 16},
            "documents": {"count": 6, "tokens": {"uniform": [400, 800]}, "popularity": {"zipf": 0.3}},
            "stop": "natural",
            "timeout": "60s",
        },
    },
}
FACTS = Facts(
    ModelFacts("m", "models/m", "float32", 46_080, 8192),
    MachineFacts("python", "lmcache", "redis-server", frozenset(), 20 * 2**30, 8 * 2**30, 2),
    Speed(((64, 0.2), (512, 1.6)), 0.06),
    tuple(range(3, 40_000)),
)


def topology(tier: dict[str, Any]) -> Topology:
    return Topology.model_validate(
        {
            "name": "t",
            "model": "m",
            "engines": [{"role": "both"}],
            "tier": tier,
            "on_load_failure": {"policy": "recompute", "attempts": 1},
        }
    )


def specs(arms: list[dict[str, Any]], **changes: Any) -> ExperimentSpecs:
    written = {
        "name": "e",
        "topology": "t",
        "workload": "w",
        "slo": "s",
        "seed": 7,
        "engine_kv": {"working_set": 0.4},
        "fill": "documents",
        "arms": arms,
    }
    experiment = Experiment.model_validate(written | changes)
    tiers = {arm.name: {"kind": "none"} if arm.set else LMCACHE for arm in experiment.arms}
    return ExperimentSpecs(
        experiment,
        {name: topology(tier) for name, tier in tiers.items()},
        Workload.model_validate(WORKLOAD),
        Hardware.model_validate({
            "name": "cpu", "device": "cpu", "block_size": 64, "target_load": 0.6,
            "document_prefill": "1s", "source": "test",
        }),
        Slo(name="s", kind="multiples", ttft=3.0, tpot=3.0, source="test"),
        {},
        {},
    )


NO_TIER = {"name": "no_tier", "set": {"tier.kind": "none"}}
TIER = {"name": "tier"}


def held(**changes: Any) -> dict[str, Any]:
    fault = {
        "kind": "hold",
        "between": ["lookup", "load"],
        "for": "1s",
        "trigger": {"every": 3},
        "request_class": "doc",
    }
    return {"name": "held", "faults": [fault | changes]}


def made(arms: list[dict[str, Any]], **changes: Any) -> ExperimentPlan:
    return plan_experiment(specs(arms, **changes), FACTS)


def test_arms_with_equal_topologies_share_a_deployment() -> None:
    plan = made([NO_TIER, TIER, held()])
    assert sorted(sorted(one.arm.name for one in block) for block in plan.blocks) == [["held", "tier"], ["no_tier"]]


def test_the_order_is_the_seeds_and_the_same_each_time() -> None:
    orders = {made([NO_TIER, TIER, held()], seed=seed).order for seed in range(12)}
    assert made([NO_TIER, TIER, held()]).order == made([NO_TIER, TIER, held()]).order
    assert len(orders) > 1


def test_the_engines_kv_is_smaller_than_the_documents_and_loads_are_expected_with_a_tier_only() -> None:
    plan = made([NO_TIER, TIER])
    arms = {one.arm.name: one for block in plan.blocks for one in block}
    assert plan.kv.tokens < sum(len(text) for text in plan.workload.documents)
    assert arms["no_tier"].expected.loaded_tokens == 0
    assert arms["tier"].expected.loads_by_class["doc"] >= 3


def test_the_limits_are_multiples_of_what_a_prompt_takes_alone() -> None:
    limits = made([TIER]).limits["chat"]
    # the chat's prompts are 30 tokens; below the first point the time is at least its share: 0.2 s x 30 / 64 = 0.094 s,
    # and the line through (64, 0.2) and (512, 1.6) gives 0.2 - 34 x 0.003125 = 0.094 s; TPOT 3 x 0.06 s
    assert limits.ttft_s == pytest.approx(3 * 0.09375)
    assert limits.tpot_s == pytest.approx(0.18)


def test_a_class_may_have_limits_of_its_own() -> None:
    classes = {**WORKLOAD["classes"], "chat": {**WORKLOAD["classes"]["chat"], "slo": {"tpot": 5}}}
    workload = Workload.model_validate({**WORKLOAD, "classes": classes})
    limits = plan_experiment(replace(specs([TIER]), workload=workload), FACTS).limits
    # TPOT 5 x 0.06 s instead of 3 x 0.06 s; TTFT, and the other class, as the experiment's SLO says
    assert [limits["chat"].ttft_s, limits["chat"].tpot_s] == pytest.approx([3 * 0.09375, 0.3])
    assert limits["doc"].tpot_s == pytest.approx(0.18)


def test_the_fill_counts_as_earlier_where_the_experiment_has_one() -> None:
    filled, empty = (made([TIER], fill=fill).workload.requests for fill in ("documents", "none"))
    first = {one.document: one for one in reversed(filled) if one.document is not None}
    assert all(one.hit_tokens == len(one.prompt) - 24 for one in first.values())
    assert {empty[one.index].hit_tokens for one in first.values()} != {one.hit_tokens for one in first.values()}


def test_a_tier_that_does_not_fit_is_refused_with_the_sum() -> None:
    small = replace(FACTS, machine=replace(FACTS.machine, available_bytes=5 * 2**30))
    with pytest.raises(DeployError, match=r"tier memory 1\.00"):
        plan_experiment(specs([TIER]), small)


@pytest.mark.parametrize(
    ("arms", "changes", "said"),
    [
        ([TIER, TIER], {}, "same name: tier"),
        ([TIER | {"control": "helt"}], {}, 'no arm "helt"'),
        (
            [TIER],
            {
                "hypothesis": {
                    "bottleneck": "b",
                    "refuted_by": "r",
                    "predicts": {"metric": "ttft_s", "class": "doc", "arm": "tier", "over": "none", "ratio": "< 0.8"},
                }
            },
            'no arm "none"',
        ),
    ],
)
def test_arms_that_contradict_themselves_are_refused(
    arms: list[dict[str, Any]], changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(SpecError, match=said):
        made(arms, **changes)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"for": "2s"}, "load_deadline"),
        ({"request_class": "docs"}, "known are chat, doc"),
        ({"kind": "hodl"}, "known are corrupt"),
    ],
)
def test_a_fault_that_cannot_reach_its_target_is_refused_before_anything_starts(
    changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(SpecError, match=said):
        refuse_impossible_faults(made([TIER, held(**changes)]))


def deployed(tier: dict[str, Any], facts: Facts = FACTS) -> Deployable:
    plan = made([TIER])
    return plan_deployment(
        Site("d", "site", topology(tier), facts.model, facts.machine, plan.kv, plan.max_model_len)
    )


def test_the_failure_policy_is_written_at_the_top_level_of_the_engines_config() -> None:
    transfer = deployed(LMCACHE).engines[0].settings.transfer
    assert transfer is not None
    assert transfer["kv_load_failure_policy"] == "recompute"
    assert transfer["kv_connector"] == "ProbedLMCacheMPConnector"


def test_an_engine_without_a_tier_has_no_connector() -> None:
    assert "--kv-transfer-config" not in deployed({"kind": "none"}).plan.components[0].command


def test_components_wait_for_what_they_need_and_no_port_is_used_twice() -> None:
    components = {one.name: one for one in deployed(LMCACHE).plan.components}
    assert components["engine-0"].needs == ("lmcache",)
    assert components["lmcache"].needs == ("redis",)
    ports = [port for one in components.values() for port in one.ports]
    assert len(ports) == len(set(ports)) == 5


def test_without_a_redis_server_a_tier_of_ours_is_refused_and_a_foreign_one_is_used() -> None:
    bare = replace(FACTS, machine=replace(FACTS.machine, redis=None))
    with pytest.raises(DeployError, match="no redis-server"):
        deployed(LMCACHE, bare)
    foreign = LMCACHE | {"backing": {"kind": "redis", "url": "redis://127.0.0.1:7000/0"}}
    found = deployed(foreign, bare)
    assert [one.name for one in found.plan.components] == ["lmcache", "engine-0"]
    assert '"port": 7000' in " ".join(found.plan.components[0].command)


def test_the_text_of_a_plan_shows_sums_arms_and_commands() -> None:
    plan = made([NO_TIER, TIER])
    text = plan_text(plan, (deployed(LMCACHE),))
    assert plan.kv.text() in text
    assert "expected (estimate, one request after another)" in text
    assert "--kv-transfer-config" in text
