"""Each fault fired as often as planned, where it was applied and nowhere else, and was taken back.

Who applies a fault is never believed. A fault that fails loads has fired on a request when the target shows it
(`fault_fired`), or when the scheduler's steps do: the request computed what its failed load had promised. A hold is
shown by the steps alone, in which the request does not run: the target's gauge counts all requests, and a late first
token may have waited in a queue. A fault that neither holds nor fails a load shows in a wrong answer. Where a held
request came to no load at all, nothing could fail: it is counted apart, and doesn't help to reach the minimum.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from testbed.checks.verdict import Finding, passed, unknown
from testbed.journal.events import FaultApplied, FaultArmed, FaultFired, FaultHealed, StepScheduled
from testbed.journal.manifest import ArmFacts, FaultFacts
from testbed.metrics.analysis import Analysis
from testbed.metrics.ledger import Ledger
from testbed.metrics.no_load import without_load
from testbed.metrics.requests import NS


@dataclass(frozen=True)
class Firing:
    """What the journal tells of one fault of one arm."""

    applied: dict[str, FaultApplied]
    shown: frozenset[str]
    unnamed: int
    first_step_at_ns: dict[str, int]
    no_load: Mapping[str, str]


def check(analysis: Analysis) -> Finding | None:
    """UNKNOWN wherever a fault can't be shown to have done what was planned: such a run says nothing about it."""
    planned = [(arm, fault) for arm in analysis.arms for fault in arm.faults]
    strays = _applied_without_plan(analysis)
    if not planned and not strays:
        return None
    first_steps = _first_steps(analysis)
    problems, counts = list(strays), []
    for arm, fault in planned:
        firing = _firing(analysis, arm, fault, first_steps)
        fired = _fired(analysis, fault, firing)
        counts.append(f"{arm.name}/{fault.fault}: {_told(fault, firing, fired)}")
        found = [
            *_counts(analysis, arm, fault, firing, fired), *_places(fault, firing, fired),
            *_failures(analysis, arm, fault, firing), *_healed(analysis, arm, fault),
        ]
        problems += [f"{arm.name}/{fault.fault}: {problem}" for problem in found]
    if problems:
        return unknown("a fault is not shown to have done what was planned", [*problems, *counts])
    return passed("every fault fired as planned, where it was applied", counts)


def _applied_without_plan(analysis: Analysis) -> list[str]:
    planned = {(arm.name, fault.fault) for arm in analysis.arms for fault in arm.faults}
    return [
        f"{arm}/{fault}: applied to {len(events)} requests, but the arm has no such fault"
        for (arm, fault), events in analysis.applied.items() if (arm, fault) not in planned
    ]


def _first_steps(analysis: Analysis) -> dict[str, list[int]]:
    """The moments at which struck requests were scheduled."""
    struck = {event.request_id for events in analysis.applied.values() for event in events}
    found: dict[str, list[int]] = {one: [] for one in struck}
    for event in analysis.run.journal.select(StepScheduled):
        for request_id, _, _ in event.work:
            if request_id in found:
                found[request_id].append(event.at_ns)
    return found


def _firing(analysis: Analysis, arm: ArmFacts, fault: FaultFacts, steps: dict[str, list[int]]) -> Firing:
    applied = {event.request_id: event for event in analysis.applied.get((arm.name, fault.fault), ())}
    shown = [event for event in analysis.run.journal.select(FaultFired, arm.name) if event.fault == fault.fault]
    later = {one: [at for at in steps[one] if at >= event.at_ns] for one, event in applied.items()}
    return Firing(
        applied, frozenset(event.request_id for event in shown if event.request_id is not None),
        sum(event.request_id is None for event in shown), {one: min(times) for one, times in later.items() if times},
        without_load(analysis.run, applied.values()) if fault.fails_loads else {},
    )


def _told(fault: FaultFacts, firing: Firing, fired: set[str]) -> str:
    told = f"applied {len(firing.applied)}, fired {len(fired)}, minimum {fault.minimum}"
    told += "".join(f"; {one} {why}" for one, why in sorted(firing.no_load.items()))
    return f"{told}; the target showed {len(firing.shown) + firing.unnamed}" if _only_holds(fault) else told


def _only_holds(fault: FaultFacts) -> bool:
    return fault.hold_s is not None and not fault.fails_loads


def _fired(analysis: Analysis, fault: FaultFacts, firing: Firing) -> set[str]:
    """Requests on which the fault is shown to have taken effect."""
    fired = set() if _only_holds(fault) else set(firing.shown)
    for one, event in firing.applied.items():
        if fault.fails_loads:
            if _recovered(analysis, fault, one):
                fired.add(one)
        elif fault.hold_s is not None and one in firing.first_step_at_ns:
            waited_s = (firing.first_step_at_ns[one] - event.at_ns) / NS
            if waited_s >= fault.hold_s:
                fired.add(one)
        elif fault.hold_s is None and one in analysis.views_by_id and analysis.views_by_id[one].match.kind == "wrong":
            fired.add(one)
    return fired


def _recovered(analysis: Analysis, fault: FaultFacts, request_id: str) -> bool:
    """The engine had to come by the lost tokens another way: it computed them, or found them in its own memory."""
    ledger = analysis.ledgers.by_id.get(request_id)
    if not isinstance(ledger, Ledger) or not ledger.failed_loads:
        return False
    if fault.fail_reason:
        mine = [one for one in ledger.failed_loads if one.load_reason == fault.fail_reason]
        return any(one.recomputed_tokens > 0 or one.found_tokens > 0 for one in mine)
    return ledger.recomputed_after_failure > 0 or ledger.found_after_failure > 0


def _counts(analysis: Analysis, arm: ArmFacts, fault: FaultFacts, firing: Firing, fired: set[str]) -> list[str]:
    armed = [event for event in analysis.run.journal.select(FaultArmed, arm.name) if event.fault == fault.fault]
    count = len(fired) if fired or _only_holds(fault) else firing.unnamed
    problems = [] if armed else ["it was never armed"]
    if not count:
        return [*problems, "it never fired"]
    if count < fault.minimum:
        problems.append(f"it fired {count} times, {fault.minimum} are needed")
    intended = [event.intended for event in armed if event.intended is not None]
    if intended and sum(intended) != len(firing.applied):
        problems.append(f"intended {sum(intended)} times, applied {len(firing.applied)} times")
    return problems


def _places(fault: FaultFacts, firing: Firing, fired: set[str]) -> list[str]:
    """A fault of a whole process names no request; then only the counts can agree."""
    elsewhere = sorted((fired | firing.shown) - firing.applied.keys())
    tells = _only_holds(fault) or not firing.unnamed
    quiet = sorted(firing.applied.keys() - fired - firing.no_load.keys()) if tells else []
    return [
        *(f"it fired on {one}, to which it was not applied" for one in elsewhere),
        *(f"it was applied to {one}, and nothing outside shows it" for one in quiet),
    ]


def _failures(analysis: Analysis, arm: ArmFacts, fault: FaultFacts, firing: Firing) -> list[str]:
    """A fault that fails loads failed each load that it was applied to, for its own reason, and no other."""
    failed: dict[str, list[str]] = {}
    for load in analysis.loads:
        if load.arm == arm.name and not load.ok:
            failed.setdefault(load.request_id, []).append(load.reason)
    if not fault.fails_loads:
        hit = sorted(firing.applied.keys() & failed.keys())
        return [f"the load of {one} failed, and this fault fails none" for one in hit]
    here = [events for (name, _), events in analysis.applied.items() if name == arm.name]
    known = {event.request_id for events in here for event in events}
    hit = sorted(firing.applied.keys() & failed.keys()) if fault.fail_reason else []
    return [
        *(f"the load of {one} failed for {' and '.join(failed[one])}, not {fault.fail_reason}"
          for one in hit if fault.fail_reason not in failed[one]),
        *(f"the load of {one} did not fail"
          for one in sorted(firing.applied.keys() - failed.keys() - firing.no_load.keys())),
        # A deadline may pass by itself on a busy machine; any other failure that nobody planned is the fault, astray.
        *(f"the load of {one} failed ({reason}), and nothing was applied to it"
          for one, reasons in sorted(failed.items()) if one not in known
          for reason in reasons if reason != "deadline"),
    ]


def _healed(analysis: Analysis, arm: ArmFacts, fault: FaultFacts) -> list[str]:
    """Each repetition arms its faults anew, so each must take them back."""
    armed = [event for event in analysis.run.journal.select(FaultArmed, arm.name) if event.fault == fault.fault]
    healed = [event for event in analysis.run.journal.select(FaultHealed, arm.name) if event.fault == fault.fault]
    if not healed:
        return ["it was never taken back"]
    left = Counter(event.repetition for event in armed) - Counter(event.repetition for event in healed)
    return [
        *(f"repetition {repetition}: it was never taken back" for repetition in sorted(left)),
        *(f"repetition {event.repetition}: it was taken back, but no canary was served afterwards: {event.detail}"
          for event in healed if not event.verified),
    ]
