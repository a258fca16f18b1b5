"""When sessions begin, and of which class: each class by its own process, or all by one that they divide."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate, takewhile

import numpy as np

from testbed.errors import SpecError
from testbed.spec.arrival import Closed
from testbed.spec.workload import Workload
from testbed.workload.arrivals import arrival_times_s
from testbed.workload.streams import stream


@dataclass(frozen=True)
class Start:
    """The beginning of a session; `number` counts those of its class."""

    traffic_class: str
    number: int
    at_s: float


def open_starts(workload: Workload, seed: int, rate_ratio: float, duration_s: float) -> Iterator[Start]:
    """The sessions that begin before `duration_s`.

    Raises: SpecError for a closed loop, whose sessions begin when others end.
    """
    shared = workload.arrival
    if isinstance(shared, Closed):
        raise SpecError("a closed loop has no arrivals", where=f"workload {workload.name}")
    if shared is not None:
        times_s = arrival_times_s(shared, stream(seed, "arrivals"), rate_ratio, duration_s)
        picks = class_picks(workload.shares, stream(seed, "shares"))
        before_end = takewhile(lambda at_s: at_s < duration_s, times_s)
        yield from (Start(name, number, at_s) for (name, number), at_s in zip(picks, before_end, strict=False))
        return
    for name, traffic in workload.classes.items():
        if traffic.arrival is None or isinstance(traffic.arrival, Closed):
            raise SpecError(f"class {name} has no arrivals", where=f"workload {workload.name}")
        times_s = arrival_times_s(traffic.arrival, stream(seed, name, "arrivals"), rate_ratio, duration_s)
        before_end = takewhile(lambda at_s: at_s < duration_s, times_s)
        yield from (Start(name, number, at_s) for number, at_s in enumerate(before_end))


def class_picks(shares: Mapping[str, float], rng: np.random.Generator) -> Iterator[tuple[str, int]]:
    """The class of each session by chance, and its number in that class; endless."""
    names, edges = list(shares), list(accumulate(shares.values()))
    counts: Counter[str] = Counter()
    while True:
        # The last edge may lie a rounding below 1.
        place = min(int(np.searchsorted(edges, rng.random(), side="right")), len(names) - 1)
        yield names[place], counts[names[place]]
        counts[names[place]] += 1
