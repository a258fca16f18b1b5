"""The record is whole: no event is missing, and every planned arm ran to its end."""

from testbed.checks.verdict import Finding, passed, unknown
from testbed.journal.events import ArmEnded
from testbed.metrics.analysis import Analysis


def check(analysis: Analysis) -> Finding | None:
    """A run that was broken off is UNKNOWN, whatever its numbers say."""
    manifest, journal = analysis.run.manifest, analysis.run.journal
    wrong = [*journal.gaps, *(f"{where} was cut off" for where in journal.cut_lines)]
    if manifest.status != "complete":
        wrong.append(f"the run is {manifest.status}")
    ended = {(event.arm, event.repetition): event for event in journal.select(ArmEnded)}
    for arm in manifest.arms:
        for repetition in range(manifest.repetitions):
            event = ended.get((arm.name, repetition))
            if event is None:
                wrong.append(f"arm {arm.name}, repetition {repetition} never ended")
            elif not event.complete:
                wrong.append(f"arm {arm.name}, repetition {repetition} was broken off: {event.reason}")
    if wrong:
        return unknown("the record is not whole", wrong)
    return passed(f"{len(journal.events)} events, {len(ended)} arms, nothing missing")
