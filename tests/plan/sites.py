"""Deployments planned from facts that are the same on every machine."""

from pathlib import Path
from typing import Any

from testbed.plan.facts import MachineFacts, ModelFacts
from testbed.plan.standing import Machines, Standing, gpu_facts, plan_standing, shape_facts
from testbed.plan.text import topology_text
from testbed.spec.load import load
from testbed.spec.machine import Hardware, Model
from testbed.spec.topology import Topology

ROOT = Path(__file__).parent.parent.parent
MACHINE = MachineFacts(
    "python", "lmcache", "redis-server", frozenset(), 20 * 2**30, 8 * 2**30, 2, mooncake_master="mooncake_master"
)
# SmolLM2-135M at float32: 2 (K, V) x 30 layers x 3 heads x 64 x 4 bytes = 46,080 bytes a token
SMALL = ModelFacts("smollm2-135m", "models/smollm2-135m", "float32", 46_080, 8192)


def planned(
    topology: str, hardware: str = "cpu", *, machines: Machines | None = None, machine: MachineFacts = MACHINE,
    **settings: Any,
) -> Standing:
    """A committed topology; `settings` have `__` for each dot, and `model` a file of configs/models."""
    given = {key.replace("__", "."): value for key, value in settings.items()}
    path = ROOT / "topologies" / f"{topology}.yaml"
    found = load(path.read_text(), Topology, where=topology, settings=given).value
    profile = load((ROOT / f"configs/hardware/{hardware}.yaml").read_text(), Hardware, where=hardware).value
    gpus = gpu_facts(profile, Machines() if machines is None else machines)
    model = SMALL if gpus is None else shape_facts(model_file(found.model))
    return plan_standing(found.name, f"sites/{found.name}", found, profile, model, machine, gpus)


def model_file(name: str) -> Model:
    """A file of configs/models."""
    return load((ROOT / f"configs/models/{name}.yaml").read_text(), Model, where=name).value


def text_of(standing: Standing) -> str:
    """The plan as `testbed plan` prints it."""
    return topology_text(standing.deployable, standing.sums)
