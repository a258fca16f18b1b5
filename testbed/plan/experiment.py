"""An experiment made concrete: every request, the arms in the order they run, their deployments, and the sums."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from testbed.errors import SpecError
from testbed.plan.expectation import Expected, expect
from testbed.plan.facts import Facts
from testbed.plan.memory import EngineKvPlan, check_deployment_memory, engine_kv
from testbed.spec.experiment import Arm, Experiment
from testbed.spec.machine import Hardware, Slo
from testbed.spec.topology import Topology
from testbed.spec.workload import Workload
from testbed.workload.mixed import WorkloadPlan, plan_requests
from testbed.workload.request import PlannedRequest
from testbed.workload.scale import Scale, choose_scale
from testbed.workload.trace.plan import TraceSetting, plan_trace
from testbed.workload.trace.records import TraceRecords

MIN_DOCUMENT_REQUESTS = 22


@dataclass(frozen=True)
class ExperimentSpecs:
    """All specs of one experiment. `topologies` holds the topology of each arm, its settings applied.

    `texts` are the resolved texts by file name; `dropped` the keys that a changed `kind` took with it, by arm. `trace`
    is what the workload plays, where it plays one.
    """

    experiment: Experiment
    topologies: Mapping[str, Topology]
    workload: Workload
    hardware: Hardware
    slo: Slo
    texts: Mapping[str, str]
    dropped: Mapping[str, tuple[str, ...]]
    trace: TraceRecords | None = None


@dataclass(frozen=True)
class ClassLimits:
    """The SLO of one traffic class in seconds, and the formula with its numbers."""

    ttft_s: float
    tpot_s: float
    derivation: str


@dataclass(frozen=True)
class ArmPlan:
    """One arm: what the user wrote, its topology, and what the caches are expected to do in it."""

    arm: Arm
    topology: Topology
    expected: Expected

    @property
    def probed(self) -> bool:
        """True where the engines have a connector, and so a probe."""
        return self.topology.probed


@dataclass(frozen=True)
class ExperimentPlan:
    """All that a run needs. `blocks` are groups of arms that share one deployment, in the order they run."""

    specs: ExperimentSpecs
    facts: Facts
    scale: Scale
    workload: WorkloadPlan
    kv: EngineKvPlan
    max_model_len: int
    blocks: tuple[tuple[ArmPlan, ...], ...]
    limits: Mapping[str, ClassLimits]
    sums: tuple[str, ...]

    @property
    def order(self) -> tuple[str, ...]:
        """Names of the arms in the order they run."""
        return tuple(plan.arm.name for block in self.blocks for plan in block)


def plan_experiment(specs: ExperimentSpecs, facts: Facts) -> ExperimentPlan:
    """Make an experiment concrete.

    Raises: SpecError for a spec that contradicts itself; DeployError, with the sum, where the plan does not fit.
    """
    _check_arms(specs.experiment)
    scale, workload = _recorded(specs, facts) if specs.trace is not None else _mixed(specs, facts)
    block = specs.hardware.block_size
    longest = max(len(one.prompt) + one.max_tokens for one in (*workload.requests, *workload.fill))
    max_model_len = -(-(longest + 1) // block) * block
    kv = _engine_kv(specs, workload, facts, max_model_len)
    arms = [_arm(arm, specs, workload, kv) for arm in specs.experiment.arms]
    memory = [_memory(group[0].topology, kv, facts) for group in _groups(arms)]
    return ExperimentPlan(
        specs,
        facts,
        scale,
        workload,
        kv,
        max_model_len,
        _blocks(arms, specs.experiment.seed),
        _limits(specs, workload.requests, facts),
        (kv.text(), *memory),
    )


def _mixed(specs: ExperimentSpecs, facts: Facts) -> tuple[Scale, WorkloadPlan]:
    """Traffic by class, scaled to what the machine does."""
    room = facts.model.max_model_len
    scale = choose_scale(
        specs.workload,
        facts.speed,
        target_load=specs.hardware.target_load,
        document_prefill_s=specs.hardware.document_prefill,
        max_model_len=room,
        min_documents=MIN_DOCUMENT_REQUESTS,
        request_s=specs.hardware.request,
    )
    workload = plan_requests(
        specs.workload,
        seed=specs.experiment.seed,
        scale=scale,
        tokens=facts.tokens,
        max_model_len=room,
        filled=specs.experiment.fill == "documents",
    )
    return scale, workload


def _recorded(specs: ExperimentSpecs, facts: Facts) -> tuple[Scale, WorkloadPlan]:
    """The traffic of a trace, scaled as its spec says and not by what the machine does."""
    spec, records, block = specs.workload.trace, specs.trace, specs.hardware.block_size
    if spec is None or records is None:
        raise SpecError("has no trace that was read", where=f"workload {specs.workload.name}")
    # The engine's context is a token more than the longest request, in whole blocks.
    room = facts.model.max_model_len // block * block - 1
    made = plan_trace(spec, records, TraceSetting(
        specs.workload.name, specs.experiment.seed, facts.tokens, room,
        facts.speed.decode_s_per_token, facts.count_tokens,
    ))
    duration_s = made.workload.duration_s
    scale = Scale(
        spec.length_scale, 1 / spec.time_scale, duration_s, "\n".join(made.lines), facts.speed.decode_s_per_token
    )
    return scale, made.workload


def _engine_kv(specs: ExperimentSpecs, workload: WorkloadPlan, facts: Facts, max_model_len: int) -> EngineKvPlan:
    """A share of the documents or, where there are none, of all prompts and answers, each shared part once."""
    documents = sum(len(text) for text in workload.documents)
    shared = sum(one.hit_tokens for one in workload.requests if one.hit_tokens is not None)
    distinct = sum(len(one.prompt) + one.max_tokens for one in workload.requests) - shared
    kv = engine_kv(
        specs.experiment.engine_kv.working_set, documents if documents else distinct, specs.hardware.block_size,
        facts.model.kv_bytes_per_token, max_model_len,
    )
    return kv if documents else replace(kv, working_set="distinct prompts and answers")


def _check_arms(experiment: Experiment) -> None:
    names = [arm.name for arm in experiment.arms]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise SpecError(f"arms have the same name: {', '.join(twice)}", where=experiment.name)
    wanted = [(f"arms.{arm.name}.control", arm.control) for arm in experiment.arms if arm.control is not None]
    if experiment.hypothesis is not None:
        wanted += [("hypothesis.predicts.arm", experiment.hypothesis.predicts.arm)]
        wanted += [("hypothesis.predicts.over", experiment.hypothesis.predicts.over)]
    for where, name in wanted:
        if name not in names:
            raise SpecError(f'there is no arm "{name}"; arms are {", ".join(names)}', where=where)


def _arm(arm: Arm, specs: ExperimentSpecs, workload: WorkloadPlan, kv: EngineKvPlan) -> ArmPlan:
    topology = specs.topologies[arm.name]
    filled = workload.fill if specs.experiment.fill == "documents" else ()
    expected = expect(
        (*filled, *workload.requests),
        block_size=kv.block_size,
        num_blocks=kv.num_blocks,
        with_tier=topology.tier.kind != "none",
    )
    return ArmPlan(arm, topology, expected)


def _memory(topology: Topology, kv: EngineKvPlan, facts: Facts) -> str:
    machine = facts.machine
    return f"with tier {topology.tier.kind}: " + check_deployment_memory(
        topology, kv.kv_bytes, available_bytes=machine.available_bytes,
        shared_memory_bytes=machine.shared_memory_bytes,
    )


def _blocks(arms: Sequence[ArmPlan], seed: int) -> tuple[tuple[ArmPlan, ...], ...]:
    """Arms with equal topologies share a deployment; the order of blocks, and of arms in them, is drawn by the seed."""
    draw = random.Random(seed)
    blocks = [tuple(draw.sample(group, len(group))) for group in _groups(arms)]
    return tuple(draw.sample(blocks, len(blocks)))


def _groups(arms: Sequence[ArmPlan]) -> list[list[ArmPlan]]:
    """Arms with equal topologies together, in the order in which they are first met."""
    groups: list[list[ArmPlan]] = []
    for plan in arms:
        group = next((one for one in groups if one[0].topology == plan.topology), None)
        if group is None:
            groups.append([plan])
        else:
            group.append(plan)
    return groups


def _limits(specs: ExperimentSpecs, requests: Sequence[PlannedRequest], facts: Facts) -> dict[str, ClassLimits]:
    """The SLO of each class: multiples of what its median prompt takes on this machine when nothing else runs."""
    limits: dict[str, ClassLimits] = {}
    recorded = tuple(sorted({one.traffic_class for one in requests}))
    for name in recorded if specs.trace is not None else specs.workload.class_names:
        lengths = sorted(len(one.prompt) for one in requests if one.traffic_class == name)
        if not lengths:
            raise SpecError(
                f"no request of class {name} falls into the window", where=f"workload {specs.workload.name}"
            )
        limits[name] = _class_limits(_class_slo(name, specs), lengths[len(lengths) // 2], facts)
    return limits


def _class_slo(name: str, specs: ExperimentSpecs) -> Slo:
    """The SLO of the experiment, with what the class says instead."""
    own = specs.workload.class_slo(name)
    said = {} if own is None else own.model_dump(exclude_none=True)
    return specs.slo.model_copy(update=said)


def _class_limits(slo: Slo, tokens: int, facts: Facts) -> ClassLimits:
    prefill_s, decode_s = facts.speed.prefill_s(tokens), facts.speed.decode_s_per_token
    return ClassLimits(
        ttft_s=slo.ttft * prefill_s,
        tpot_s=slo.tpot * decode_s,
        derivation=(
            f"TTFT {slo.ttft:g} x {prefill_s:.3f} s (prefill of the median prompt, {tokens} tokens, alone)"
            f" = {slo.ttft * prefill_s:.3f} s; TPOT {slo.tpot:g} x {decode_s:.3f} s (decode, alone)"
            f" = {slo.tpot * decode_s:.3f} s"
        ),
    )
