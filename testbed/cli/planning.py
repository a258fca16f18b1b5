"""What `plan`, `run` and `demo` have in common: from a name on the command line to a plan."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from testbed.engines.preflight import PreflightRecord
    from testbed.experiment.folders import Folders
    from testbed.plan.experiment import ExperimentPlan


def make_plan(
    name: str, settings: Sequence[str], hardware: str, folders: "Folders"
) -> tuple["ExperimentPlan", "PreflightRecord"]:
    """Read the experiment `name` and all it names, find out about this machine, and plan.

    Raises: SpecError, DeployError
    """
    from testbed.cli.talk import talk
    from testbed.experiment.facts import find_facts
    from testbed.experiment.faults import refuse_impossible_faults
    from testbed.experiment.specs import find_spec, read_experiment, read_model
    from testbed.plan.experiment import plan_experiment
    from testbed.spec.load import parse_setting

    path = find_spec(name, "experiments", beside=None, where="experiment")
    specs = read_experiment(Path(path), hardware, dict(parse_setting(text) for text in settings))
    model = read_model(next(iter(specs.topologies.values())).model, str(path))
    facts, preflight = find_facts(model, folders.cache, talk)
    plan = plan_experiment(specs, facts)
    refuse_impossible_faults(plan)
    return plan, preflight
