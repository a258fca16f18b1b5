"""The faults of a plan before anything runs: their names, and what stands in their way."""

from dataclasses import dataclass

from failure_injection.catalogue import make_fault
from testbed.errors import SpecError
from testbed.plan.experiment import ArmPlan, ExperimentPlan
from testbed.spec.experiment import FaultSpec


@dataclass(frozen=True)
class PlannedTarget:
    """The target of an arm's faults, as far as the plan knows it."""

    kind: str
    load_deadline_s: float | None


def fault_label(number: int, spec: FaultSpec) -> str:
    """The name of an arm's fault in the journal."""
    return f"{spec.kind}-{number}"


def planned_target(arm: ArmPlan) -> PlannedTarget:
    """The tier that an arm's faults will meet."""
    tier = arm.topology.tier
    return PlannedTarget(tier.kind, arm.topology.load_deadline_s)


def refuse_impossible_faults(plan: ExperimentPlan) -> None:
    """Check every fault against its target.

    Raises: SpecError, with all that stands in their way.
    """
    problems = [
        f"arm {one.arm.name}: {problem}"
        for block in plan.blocks
        for one in block
        for number, spec in enumerate(one.arm.faults)
        for problem in make_fault(spec, fault_label(number, spec)).problems(planned_target(one))
    ]
    classes = plan.limits  # one for each traffic class that is planned
    problems += [
        f"arm {one.arm.name}: there is no traffic class {spec.request_class!r}; known are {', '.join(classes)}"
        for block in plan.blocks
        for one in block
        for spec in one.arm.faults
        if spec.request_class is not None and spec.request_class not in classes
    ]
    if problems:
        raise SpecError("\n".join(problems), where=plan.specs.experiment.name)
