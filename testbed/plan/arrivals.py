"""How far the planned arrivals lie from the process that was asked for, told when the plan is made."""

from collections.abc import Iterable
from dataclasses import dataclass

from testbed.missing import Missing
from testbed.spec.arrival import Arrival
from testbed.spec.workload import GROUPS, Workload, group_name
from testbed.workload.fidelity import intended_cdf, ks_distance, ks_limit
from testbed.workload.mixed import WorkloadPlan
from testbed.workload.request import PlannedRequest

ALL = "all"
"""Stands for the sessions of all classes together, where they divide one arrival."""


@dataclass(frozen=True)
class ArrivalDistance:
    """Kolmogorov and Smirnov's distance of so many arrivals from their process, and what is usual for so many."""

    process: str
    arrivals: int
    distance: float | Missing
    limit: float | Missing


def arrival_distances(workload: Workload, planned: WorkloadPlan) -> dict[str, ArrivalDistance]:
    """By class, or for all classes together where one arrival is divided among them. A trace has no process."""
    if workload.trace is not None:
        return {}
    starts_s = session_starts_s(workload, planned.requests)
    if workload.arrival is not None:
        everyone = sorted(at_s for times_s in starts_s.values() for at_s in times_s)
        return {ALL: _distance(workload.arrival, everyone, planned.duration_s)}
    return {
        name: _distance(traffic.arrival, starts_s[name], planned.duration_s)
        for name, traffic in workload.classes.items() if traffic.arrival is not None
    }


def session_starts_s(workload: Workload, requests: Iterable[PlannedRequest]) -> dict[str, list[float]]:
    """The moments at which sessions of each class arrive: their first requests. One without a session is its own."""
    owner = {group_name(name, group): name for name in workload.classes for group in GROUPS}
    first: dict[str, dict[tuple[str, int], float]] = {name: {} for name in workload.classes}
    for one in requests:
        of_class = first[owner.get(one.traffic_class, one.traffic_class)]
        key = ("request", one.index) if one.session is None else ("session", one.session)
        of_class[key] = min(one.scheduled_at_s, of_class.get(key, one.scheduled_at_s))
    return {name: sorted(of_class.values()) for name, of_class in first.items()}


def _distance(arrival: Arrival, times_s: list[float], duration_s: float) -> ArrivalDistance:
    cdf = intended_cdf(arrival, duration_s)
    distance = Missing("a closed loop has no intended arrivals") if cdf is None else ks_distance(times_s, cdf)
    return ArrivalDistance(arrival.process, len(times_s), distance, ks_limit(arrival, len(times_s)))
