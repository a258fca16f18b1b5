"""Read a topology by itself, find out what its plan needs to know, and plan it: for `plan` and `up`."""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil

from testbed.deploy.records import read_deployment
from testbed.engines.models import read_shape
from testbed.errors import DeployError
from testbed.experiment.facts import corpus_tokens, find_facts, machine_facts, model_folder
from testbed.experiment.folders import Folders
from testbed.experiment.specs import find_spec, read_model, read_spec
from testbed.plan.facts import MachineFacts, ModelFacts
from testbed.plan.standing import Machines, Standing, gpu_facts, plan_standing, shape_facts
from testbed.spec.machine import DTYPE_BYTES, Hardware, Model
from testbed.spec.topology import Topology

Talk = Callable[[str], None]
_GPU_DTYPE = "bfloat16"


@dataclass(frozen=True)
class Found:
    """A topology, its model, the machine that it is planned for; and the keys that settings dropped."""

    topology: Topology
    model: Model
    hardware: Hardware
    dropped: tuple[str, ...]


@dataclass(frozen=True)
class StandingFacts:
    """What a deployment that stays was planned from. `tokens` is text to ask it, empty where no model is here."""

    model: ModelFacts
    tokens: tuple[int, ...]


def read_topology(name: str, settings: Mapping[str, Any], hardware: str) -> Found:
    """The topology `name`, with what it names.

    Raises: SpecError
    """
    path = find_spec(name, "topologies", beside=None, where="topology")
    loaded = read_spec(path, Topology, settings)
    machine = read_spec(find_spec(hardware, "hardware", beside=None, where="--hardware"), Hardware).value
    return Found(loaded.value, read_model(loaded.value.model, str(path)), machine, loaded.dropped)


def plan_found(
    found: Found, name: str, folders: Folders, machines: Machines, talk: Talk
) -> tuple[Standing, StandingFacts]:
    """The deployment `name` of a topology, on this machine's processor or on GPUs that need not be here.

    Raises: SpecError, DeployError
    """
    gpus = gpu_facts(found.hardware, machines)
    facts = (_processor_facts if gpus is None else _gpu_model_facts)(found.model, folders, talk)
    machine = _without_own(machine_facts(), name, folders.state)
    folder = str(folders.state / "sites" / name)
    return plan_standing(name, folder, found.topology, found.hardware, facts.model, machine, gpus), facts


def _gpu_model_facts(model: Model, folders: Folders, talk: Talk) -> StandingFacts:
    """By the file of a model from a hub, which need not be here; else by what lies in its folder."""
    if model.source == "hub":
        return StandingFacts(shape_facts(model), ())
    folder = model_folder(model, folders.cache, talk)
    shape = read_shape(folder)
    facts = ModelFacts(
        model.name, str(folder), _GPU_DTYPE, shape.kv_bytes_per_token(DTYPE_BYTES[_GPU_DTYPE]),
        min(model.max_model_len, shape.max_positions), shape.num_kv_heads,
        sum(path.stat().st_size for path in folder.glob("*.safetensors")),
    )
    return StandingFacts(facts, corpus_tokens(folder))


def _processor_facts(model: Model, folders: Folders, talk: Talk) -> StandingFacts:
    if model.source == "hub":
        raise DeployError(
            f"model {model.name} is not served by a processor here", where="--hardware",
            hint="plan it for GPUs, such as --hardware h100, or take another: --set model=smollm2-135m",
        )
    facts, _ = find_facts(model, folders.cache, talk)
    return StandingFacts(facts.model, facts.tokens)


def _without_own(machine: MachineFacts, name: str, state: Path) -> MachineFacts:
    """What a deployment of this name holds is not taken for it: the same `up` again makes the same plan.

    Its ports are known; how much of the memory is its own is not, so all of that counts as free.
    """
    record = read_deployment(state, name)
    if record is None:
        return machine
    own = {port for component in record.plan.components for port in component.ports}
    return replace(
        machine, busy_ports=machine.busy_ports - own, available_bytes=psutil.virtual_memory().total,
        shared_memory_bytes=shutil.disk_usage("/dev/shm").total,
    )
