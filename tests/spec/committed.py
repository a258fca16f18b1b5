"""The committed topologies and configs, each with the model that checks it."""

from pathlib import Path

from pydantic import BaseModel

from testbed.spec.experiment import Experiment
from testbed.spec.machine import Hardware, Model, Slo
from testbed.spec.topology import Topology
from testbed.spec.workload import Workload

ROOT = Path(__file__).parent.parent.parent
FOLDERS: dict[str, type[BaseModel]] = {
    "topologies": Topology,
    "configs/experiments": Experiment,
    "configs/workloads": Workload,
    "configs/models": Model,
    "configs/hardware": Hardware,
    "configs/slo": Slo,
}
COMMITTED: dict[str, tuple[str, type[BaseModel]]] = {
    path.relative_to(ROOT).as_posix().removeprefix("topologies/").removeprefix("configs/"): (path.read_text(), model)
    for folder, model in FOLDERS.items()
    for path in sorted((ROOT / folder).glob("*.yaml"))
}
