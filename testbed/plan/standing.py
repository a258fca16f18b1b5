"""A topology by itself, without an experiment: its engines' memory by the hardware profile, sums, processes."""

from collections.abc import Iterator
from dataclasses import dataclass

from testbed.errors import DeployError, SpecError
from testbed.plan.deployment import plan_deployment
from testbed.plan.facts import GpuFacts, MachineFacts, ModelFacts
from testbed.plan.gpus import gpu_memory, memory_line
from testbed.plan.memory import EngineKvPlan, check_deployment_memory, tier_terms
from testbed.plan.site import LOOPBACK, Deployable, Site
from testbed.spec.machine import DTYPE_BYTES, Hardware, Model
from testbed.spec.topology import Engine, Topology

_REQUESTS_AT_ONCE = 4
"""So many of the longest requests an engine on a processor has room for."""


@dataclass(frozen=True)
class Machines:
    """How many GPU machines there are (`nodes`), how many GPUs in each, or all engines on one GPU.

    None leaves it to the hardware profile: one machine, as large as they come.
    """

    nodes: int = 1
    per_node: int | None = None
    single: bool = False


@dataclass(frozen=True)
class Standing:
    """The plan of a deployment that stays, and its sums as lines."""

    deployable: Deployable
    sums: tuple[str, ...]


def shape_facts(model: Model) -> ModelFacts:
    """What the file of a model from a hub says of it.

    Raises: SpecError for one without a shape.
    """
    shape = model.shape
    if shape is None or model.hub is None:
        raise SpecError(f"model {model.name} has no shape to plan with", where="model")
    per_token = 2 * shape.layers * shape.kv_heads * shape.head_dim * DTYPE_BYTES[shape.dtype]
    return ModelFacts(
        model.name, model.hub, shape.dtype, per_token, model.max_model_len, shape.kv_heads, shape.weights
    )


def gpu_facts(hardware: Hardware, machines: Machines) -> GpuFacts | None:
    """The GPUs of a profile on so many machines; None for a profile without, whose engines share one machine anyway.

    One machine is reached by loopback; several are node-0, node-1, … until a cluster gives them addresses.
    """
    gpu = hardware.gpu
    if gpu is None:
        if machines.nodes > 1 or machines.per_node is not None:
            raise SpecError(f"hardware {hardware.name} has no GPUs", where="--nodes, --gpus-per-node")
        return None
    nodes = (LOOPBACK,) if machines.nodes == 1 else tuple(f"node-{number}" for number in range(machines.nodes))
    per_node = 1 if machines.single else gpu.per_node if machines.per_node is None else machines.per_node
    return GpuFacts(
        hardware.name, gpu.memory, gpu.utilization, gpu.reserve, gpu.rdma, per_node, nodes, shared=machines.single
    )


def plan_standing(
    name: str, folder: str, topology: Topology, hardware: Hardware, model: ModelFacts, machine: MachineFacts,
    gpus: GpuFacts | None,
) -> Standing:
    """A deployment called `name` in `folder`.

    Raises: DeployError, with the sum, where it does not fit; SpecError for what contradicts itself.
    """
    context = min(hardware.context, model.max_model_len)
    blocks = _REQUESTS_AT_ONCE * -(-context // hardware.block_size)
    kv = EngineKvPlan(blocks, hardware.block_size, blocks * hardware.block_size, model.kv_bytes_per_token)
    site = Site(name, folder, topology, model, machine, kv, context, gpus=gpus)
    sums = _processor_sums(site) if gpus is None else tuple(_gpu_sums(site, gpus))
    return Standing(plan_deployment(site), sums)


def _processor_sums(site: Site) -> tuple[str, ...]:
    machine, kv = site.machine, site.kv
    return (
        f"engine KV: {kv.num_blocks} blocks x {kv.block_size} tokens x {kv.kv_bytes_per_token} B = {kv.kv_bytes} B"
        f" in each engine, room for {_REQUESTS_AT_ONCE} requests of {site.max_model_len} tokens",
        check_deployment_memory(
            site.topology, kv.kv_bytes, available_bytes=machine.available_bytes,
            shared_memory_bytes=machine.shared_memory_bytes,
        ),
    )


def _gpu_sums(site: Site, gpus: GpuFacts) -> Iterator[str]:
    """A line for each group of engines; then what the tier takes of the machines' own memory, which is not known."""
    if gpus.shared and any(group.tensor_parallel > 1 for group in site.topology.engines):
        raise DeployError("an engine that is split over GPUs can't share one", where="--single-node")
    for group in site.topology.engines:
        memory = gpu_memory(site.model, gpus, group.tensor_parallel, site.topology.engine_count)
        yield memory_line(_group_name(group), memory, gpus, site.max_model_len)
    terms = tier_terms(site.topology)
    if terms:
        total = " + ".join(f"{name} {size / 2**30:.2f}" for name, size in terms.items())
        yield f"memory of the machine: {total} = {sum(terms.values()) / 2**30:.2f} GiB, not checked here"


def _group_name(group: Engine) -> str:
    split = f", split over {group.tensor_parallel} GPUs" if group.tensor_parallel > 1 else ""
    return f"{group.replicas} x {group.role}{split}"
