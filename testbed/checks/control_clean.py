"""A control arm differs from its fault's arm by the fault alone: the same settings and holds, and no failed load."""

from testbed.checks.verdict import Finding, passed, times, unknown
from testbed.journal.manifest import ArmFacts
from testbed.metrics.analysis import Analysis
from testbed.metrics.pairs import differences, struck_keys

LEAST_IN_BOTH = 3
"""Requests that must be held in both arms; where fewer are held at all, all of them."""


def check(analysis: Analysis) -> Finding | None:
    """Looks at declared controls; without one there is nothing to judge."""
    controlled = [(arm, arm.control) for arm in analysis.arms if arm.control is not None]
    if not controlled:
        return None
    wrong: list[str] = []
    told: list[str] = []
    for arm, name in controlled:
        control = analysis.arm(name)
        if control is None:
            wrong.append(f"arm {arm.name} names {name} as its control, and there is no such arm")
            continue
        wrong += [f"{control.name}, control of {arm.name}: {problem}" for problem in _problems(analysis, arm, control)]
        wrong += _struck_others(analysis, arm, control)
        held = times(_holds(analysis, control), "request")
        told.append(f"{control.name} holds {held}, {arm.name} {_holds(analysis, arm)}")
    if wrong:
        return unknown("a control arm is not clean", [*wrong, *told])
    return passed("each control arm has the same settings and holds, and no failed load", told)


def _problems(analysis: Analysis, arm: ArmFacts, control: ArmFacts) -> list[str]:
    failed = sum(load.arm == control.name and not load.ok for load in analysis.loads)
    wanted, there = _planned_holds(arm), _planned_holds(control)
    problems = differences(arm, control)
    if wanted != there:
        problems.append(f"holds {sorted(there)}, the fault's arm holds {sorted(wanted)}")
    if failed:
        problems.append(f"{times(failed, 'load')} failed in it")
    if wanted and not _holds(analysis, control):
        problems.append("nothing was held in it")
    return problems


def _struck_others(analysis: Analysis, arm: ArmFacts, control: ArmFacts) -> list[str]:
    """Only requests that were held in both arms can be compared."""
    there = struck_keys(analysis, control.name, _holding(control))
    here = struck_keys(analysis, arm.name, _holding(arm))
    both = len(here & there)
    if not _holds(analysis, control) or both >= min(LEAST_IN_BOTH, len(here)):
        return []
    return [f"{arm.name} and its control struck other requests: {both} of {len(here)} struck in both"]


def _holding(arm: ArmFacts) -> list[str]:
    return [fault.fault for fault in arm.faults if fault.hold_s is not None]


def _planned_holds(arm: ArmFacts) -> set[tuple[float, str]]:
    return {(fault.hold_s, fault.trigger) for fault in arm.faults if fault.hold_s is not None}


def _holds(analysis: Analysis, arm: ArmFacts) -> int:
    """Requests that were held in this arm."""
    return sum(len(analysis.applied.get((arm.name, fault), ())) for fault in _holding(arm))
