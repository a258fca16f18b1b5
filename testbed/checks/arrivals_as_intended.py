"""The plan draws its arrivals from the process that was asked for, and the sends keep their shape.

The distance of the sends from the process is at most the sum of both distances, so each is judged by itself: the plan's
when it is made, the client's by the stamps of each send.
"""

from testbed.checks.verdict import Finding, passed, unknown
from testbed.journal.manifest import ArrivalFacts
from testbed.metrics.analysis import Analysis
from testbed.metrics.drives import Drive, arrival_distance
from testbed.metrics.fidelity import ARRIVAL_DISTANCE_LIMIT, PROCESS_DISTANCE_FACTOR
from testbed.missing import Missing


def check(analysis: Analysis) -> Finding | None:
    """By Kolmogorov and Smirnov's distance; a send within the lag limit counts as made when it was due."""
    grace_s = analysis.run.manifest.send_lag_limit_s
    bent = {drive.name: arrival_distance(drive, grace_s) for drive in analysis.drives}
    known = {name: value for name, value in bent.items() if not isinstance(value, Missing)}
    if not known:
        return None
    wrong = [
        f"{name}: the sends were behind the schedule by {value:.3f} of it, {ARRIVAL_DISTANCE_LIMIT} is allowed"
        for name, value in known.items() if value > ARRIVAL_DISTANCE_LIMIT
    ]
    facts = analysis.run.manifest.arrivals
    wrong += [f"{name}: {process_told(one)}" for name, one in sorted(facts.items()) if _too_far(one)]
    told = [*(_drive_told(drive) for drive in analysis.drives), *(f"{k}: {process_told(v)}" for k, v in facts.items())]
    if wrong:
        return unknown("the arrivals are not those that were asked for", wrong)
    return passed("the sends kept the shape of the planned arrivals", told)


def _too_far(facts: ArrivalFacts) -> bool:
    if facts.distance is None or facts.limit is None:
        return False
    return facts.distance > PROCESS_DISTANCE_FACTOR * facts.limit


def _drive_told(drive: Drive) -> str:
    distance = arrival_distance(drive)
    shown = str(distance) if isinstance(distance, Missing) else f"{distance:.3f}"
    return f"{drive.name}: distance of sent from due {shown}"


def process_told(facts: ArrivalFacts) -> str:
    """How far the planned arrivals of a class lie from their process."""
    if facts.distance is None or facts.limit is None:
        return f"{facts.process}: no value: {facts.reason}"
    usual = f"19 of 20 right plans stay within {facts.limit:.3f}"
    return f"{facts.arrivals} planned arrivals lie {facts.distance:.3f} from {facts.process}; {usual}"
