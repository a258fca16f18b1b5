"""Open-loop arrival times: they depend on the process and the seed, never on an answer."""

from collections.abc import Iterator
from itertools import count

import numpy as np

from testbed.spec.workload import Arrival


def arrival_times_s(arrival: Arrival, rng: np.random.Generator, rate_ratio: float = 1.0) -> Iterator[float]:
    """Endless times in ascending order; the caller takes as many as lie in its window.

    A constant process starts at 0. Another `rate_ratio` stretches the same draws, it does not draw others.
    Units: seconds from the zero of the schedule.
    """
    gap_s = 1.0 / (arrival.rate * rate_ratio)
    if arrival.process == "constant":
        for index in count():
            yield index * gap_s
    at = 0.0
    while True:
        at += float(rng.exponential())
        yield at * gap_s
