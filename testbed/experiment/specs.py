"""Read the files that an experiment names, and apply what its arms and the command line set."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from testbed.errors import SpecError
from testbed.experiment.traces import find_trace, read_trace
from testbed.plan.experiment import ExperimentSpecs
from testbed.spec.experiment import Arm, Experiment
from testbed.spec.load import Loaded, apply_settings, load, parse_tree, validate, written
from testbed.spec.machine import Hardware, Model, Slo
from testbed.spec.resolve import Kind, candidates, folder_of, not_found
from testbed.spec.topology import Topology
from testbed.spec.tree import Tree
from testbed.spec.workload import Workload
from testbed.workload.trace.records import TraceRecords

M = TypeVar("M", bound=BaseModel)


def spec_roots() -> tuple[Path, ...]:
    """Where names are looked up: the working tree, then the copies that were packaged with testbed."""
    return Path.cwd(), Path(__file__).parent.parent / "packaged", Path(__file__).parent.parent.parent


def find_spec(name: str, kind: Kind, *, beside: Path | None, where: str) -> Path:
    """The file that `name` means.

    Raises: SpecError, with the nearest known name, when there is none.
    """
    roots = spec_roots()
    looked = candidates(name, kind, beside=beside, roots=roots)
    for path in looked:
        if Path(path).is_file():
            return Path(path)
    known = [path.stem for root in roots for path in sorted((root / folder_of(kind)).glob("*.yaml"))]
    raise not_found(name, kind, looked, known, where=where)


def is_topology(name: str) -> bool:
    """Whether `name` means a topology and no experiment: by its folder, or for a path by what the file says.

    A name that neither folder has counts as an experiment's.
    """
    def first(kind: Kind) -> Path | None:
        looked = candidates(name, kind, beside=None, roots=spec_roots())
        return next((Path(path) for path in looked if Path(path).is_file()), None)

    experiment, topology = first("experiments"), first("topologies")
    if experiment is None or experiment != topology:
        return experiment is None and topology is not None
    data = parse_tree(_text(experiment), where=str(experiment)).data
    return isinstance(data, dict) and "engines" in data


def read_spec(path: Path, model: type[M], settings: Mapping[str, Any] | None = None) -> Loaded[M]:
    """Read one file and check it.

    Raises: SpecError
    """
    return load(_text(path), model, where=str(path), settings=settings)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise SpecError(f"can't be read: {problem}", where=str(path)) from problem


def read_experiment(path: Path, hardware: str, settings: Mapping[str, Any]) -> ExperimentSpecs:
    """An experiment with all that it names. `settings` come from the command line and go to every arm's topology.

    Raises: SpecError
    """
    experiment = read_spec(path, Experiment)
    where, beside = str(path), path.parent
    topology = _topology_tree(find_spec(experiment.value.topology, "topologies", beside=beside, where=where), settings)
    workload_path = find_spec(experiment.value.workload, "workloads", beside=beside, where=where)
    workload = read_spec(workload_path, Workload)
    trace = trace_of(workload.value, workload_path)
    slo = read_spec(find_spec(experiment.value.slo, "slo", beside=beside, where=where), Slo)
    machine = read_spec(find_spec(hardware, "hardware", beside=None, where="--hardware"), Hardware)
    topologies = {arm.name: _of_arm(topology, arm) for arm in experiment.value.arms}
    texts = {"experiment": experiment.text, "workload": workload.text, "slo": slo.text, "hardware": machine.text}
    texts |= {f"topology of {name}": loaded.text for name, loaded in topologies.items()}
    if trace is not None:
        texts["trace"] = trace.summary()
    return ExperimentSpecs(
        experiment.value,
        {name: loaded.value for name, loaded in topologies.items()},
        workload.value,
        machine.value,
        slo.value,
        texts,
        {name: loaded.dropped for name, loaded in topologies.items()},
        trace,
    )


def trace_of(workload: Workload, path: Path) -> TraceRecords | None:
    """The trace that the workload in file `path` plays, read whole; None for one that has classes.

    Raises: SpecError if there is no such file, or with all that is wrong in it.
    """
    if workload.trace is None:
        return None
    return read_trace(workload.trace, find_trace(workload.trace.file, beside=path.parent, where=str(path)))


def _topology_tree(path: Path, settings: Mapping[str, Any]) -> Tree:
    """The topology as all arms share it: the file, and what the command line sets in it."""
    tree, _ = apply_settings(parse_tree(_text(path), where=str(path)), settings)
    validate(tree, Topology)
    return tree


def _of_arm(topology: Tree, arm: Arm) -> Loaded[Topology]:
    """What one arm makes of the shared topology."""
    tree, dropped = apply_settings(topology, arm.set, where=f"arm {arm.name}: set")
    return Loaded(validate(tree, Topology), written(tree.data), dropped)


def read_model(name: str, where: str) -> Model:
    """The model that a topology names: a file of configs/models, or a folder on this disk.

    Raises: SpecError
    """
    if (Path(name) / "config.json").is_file():
        return Model(name=Path(name).name, source="folder", folder=str(Path(name).resolve()), max_model_len=8192)
    return read_spec(find_spec(name, "models", beside=None, where=where), Model).value
