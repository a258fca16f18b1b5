"""A plan as text: what `testbed plan` prints and the manifest keeps."""

from collections import Counter
from collections.abc import Iterable, Iterator

from testbed.plan.aims import aimed_at
from testbed.plan.component import Component
from testbed.plan.experiment import ArmPlan, ExperimentPlan
from testbed.plan.site import LOOPBACK, Deployable
from testbed.workload.in_words import arrivals_text, loop_text


def plan_text(plan: ExperimentPlan, deployables: tuple[Deployable, ...]) -> str:
    """All that will run, for a reader: machine, load, sums, arms, commands."""
    return "\n".join((*_head(plan), *_arms(plan), *_commands(deployables))) + "\n"


def _head(plan: ExperimentPlan) -> Iterator[str]:
    facts, specs = plan.facts, plan.specs
    counts = Counter(one.traffic_class for one in plan.workload.requests)
    yield f"experiment {specs.experiment.name}, seed {specs.experiment.seed}"
    yield f"repetitions {specs.experiment.repetitions}"
    yield f"model {facts.model.name}, {facts.model.dtype}, {facts.model.kv_bytes_per_token} B of KV a token"
    yield f"hardware {specs.hardware.name}, {facts.machine.cores} cores"
    yield from (f"  {line}" for line in plan.scale.derivation.splitlines())
    yield from (f"  {line}" for line in arrivals_text(specs.workload, plan.scale.rate_ratio))
    yield f"  window {plan.workload.duration_s:.1f} s; cut to fit: {plan.workload.cut}"
    yield "requests in each arm: " + ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
    yield f"  {loop_text(plan.workload.requests)}"
    yield f"  filled before: {len(plan.workload.fill)} documents, not measured"
    yield f"  context of the engine: {plan.max_model_len} tokens, the longest request in whole blocks"
    yield from plan.sums
    for name, limits in plan.limits.items():
        yield f"SLO {name}: {limits.derivation}"


def _arms(plan: ExperimentPlan) -> Iterator[str]:
    yield f"arms in the order they run: {', '.join(plan.order)}"
    for number, block in enumerate(plan.blocks):
        yield f"  deployment {number}: {', '.join(one.arm.name for one in block)}"
    for block in plan.blocks:
        for one in block:
            yield from _arm(one, plan)


def _arm(one: ArmPlan, plan: ExperimentPlan) -> Iterator[str]:
    expected = one.expected
    loads = ", ".join(f"{count} {name}" for name, count in sorted(expected.loads_by_class.items()))
    yield (
        f"  {one.arm.name}: expected (estimate, one request after another) local {expected.local_tokens},"
        f" loaded {expected.loaded_tokens}, computed {expected.computed_tokens} tokens;"
        f" loads: {loads if loads else 'none'}"
    )
    dropped = plan.specs.dropped.get(one.arm.name, ())
    if dropped:
        yield f"    dropped with the old kind: {', '.join(dropped)}"
    for fault in one.arm.faults:
        yield f"    fault {fault.kind}: {fault.model_dump(exclude_none=True, by_alias=True)}"
        yield f"      strikes requests {', '.join(map(str, aimed_at(fault, plan.workload.requests, expected)))}"


def _commands(deployables: Iterable[Deployable]) -> Iterator[str]:
    for deployable in deployables:
        yield f"deployment {deployable.plan.name} in {deployable.plan.folder}"
        for component in deployable.plan.components:
            yield from _component(component)


def _component(component: Component) -> Iterator[str]:
    env = " ".join(f"{key}={value}" for key, value in sorted(component.env.items()))
    needs = f", after {', '.join(component.needs)}" if component.needs else ""
    gpus = f", {component.gpus:g} GPU" if component.gpus else ""
    node = f", on {component.node}" if component.node != LOOPBACK else ""
    yield f"  {component.name}: ports {', '.join(map(str, component.ports))}{node}{gpus}{needs}"
    yield f"    {env} {' '.join(component.command)}"
    for path, text in component.files.items():
        yield f"    file {path}:"
        yield from (f"      {line}" for line in text.splitlines())


def topology_text(deployable: Deployable, sums: Iterable[str], dropped: Iterable[str] = ()) -> str:
    """All that a topology deploys, for a reader: model, machines, sums, commands; `dropped` keys went with a kind."""
    fell = [f"dropped with the old kind: {', '.join(dropped)}"] if dropped else []
    return "\n".join((*_topology_head(deployable), *fell, *sums, *_commands([deployable]))) + "\n"


def _topology_head(deployable: Deployable) -> Iterator[str]:
    site = deployable.site
    topology, model, gpus = site.topology, site.model, site.gpus
    yield f"topology {topology.name}"
    yield f"model {model.name}, {model.dtype}, {model.kv_bytes_per_token} B of KV a token"
    if gpus is None:
        yield f"hardware: a processor with {site.machine.cores} cores"
    else:
        yield f"hardware {gpus.name}: {len(gpus.nodes)} machine(s) with {gpus.per_node} GPU(s) each"
    ways = [f"transfer {topology.transfer.kind}", f"tier {topology.tier.kind}"]
    yield f"engines {', '.join(part.name for part in deployable.engines)}; {', '.join(ways)}"
    failure = topology.on_load_failure
    yield f"a failed load: {failure.policy}, after {failure.attempts} attempt(s); deadline {_deadline(deployable)}"
    yield f"context of each engine: {site.max_model_len} tokens"
    yield f"clients ask {deployable.client_url}"


def _deadline(deployable: Deployable) -> str:
    seconds = deployable.site.topology.load_deadline_s
    return "none, for nothing is loaded" if seconds is None else f"{seconds:g} s"
