"""Open-loop arrival times: they depend on the process and the seed, never on an answer.

Counts are drawn at a rate of one; the process says when it wants so many. So one draw serves all rates and forms.
"""

from collections.abc import Iterator
from itertools import count

import numpy as np

from testbed.spec.arrival import Constant, OpenArrival, Poisson
from testbed.workload.rates import at_ratio, moment_s


def arrival_times_s(
    arrival: OpenArrival, rng: np.random.Generator, rate_ratio: float = 1.0, duration_s: float = 1.0
) -> Iterator[float]:
    """Endless times in ascending order; the caller takes as many as lie in its window.

    A constant process starts at 0. Another `rate_ratio` stretches the same draws, it does not draw others; times of
    bursts and steps stay as they are written. Only a ramp depends on `duration_s`.
    Units: seconds from the zero of the schedule.
    """
    at_rates = at_ratio(arrival, rate_ratio)
    for expected in _counts(arrival, rng):
        yield moment_s(at_rates, expected, duration_s)


def _counts(arrival: OpenArrival, rng: np.random.Generator) -> Iterator[float]:
    """The expected number of arrivals before each one, drawn at a rate of one."""
    if isinstance(arrival, Constant):
        yield from map(float, count())
        return
    burstiness = 1.0 if isinstance(arrival, Poisson) else arrival.burstiness
    at = 0.0
    while True:
        at += float(rng.exponential() if burstiness == 1.0 else rng.gamma(burstiness, 1.0 / burstiness))
        yield at
