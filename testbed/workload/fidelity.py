"""How far arrivals lie from the process that was asked for: Kolmogorov and Smirnov's distance, and what is too far."""

import math
from collections.abc import Callable, Sequence

from testbed.missing import Missing
from testbed.spec.arrival import Arrival, Closed, Constant, Poisson
from testbed.workload.rates import expected_count

KS_CRITICAL = 1.36
"""The distance of n independent draws from their own distribution exceeds this / sqrt(n) once in twenty times."""

Cdf = Callable[[float], float]


def intended_cdf(arrival: Arrival, duration_s: float) -> Cdf | None:
    """The share of arrivals that the process wants by a moment of [0, duration_s); None for a closed loop.

    A ratio of rates makes no difference to it.
    """
    if isinstance(arrival, Closed):
        return None
    total = expected_count(arrival, duration_s, duration_s)
    return lambda at_s: expected_count(arrival, min(max(at_s, 0.0), duration_s), duration_s) / total


def ks_distance(times_s: Sequence[float], cdf: Cdf) -> float | Missing:
    """The largest difference between the share of `times_s` up to a moment and what `cdf` says, from 0 to 1."""
    if not times_s:
        return Missing("nothing arrived")
    count = len(times_s)
    wanted = [cdf(at_s) for at_s in sorted(times_s)]
    above = max((number + 1) / count - share for number, share in enumerate(wanted))
    below = max(share - number / count for number, share in enumerate(wanted))
    return max(above, below)


def ks_limit(arrival: Arrival, count: int) -> float | Missing:
    """The distance that `count` arrivals of the right process exceed once in twenty times.

    Gaps that vary `v` times as much as a poisson process's do move the shares `v` times as far. A constant process
    moves in whole requests only.
    """
    if count < 1 or isinstance(arrival, Closed):
        return Missing("nothing arrived" if count < 1 else "a closed loop has no intended arrivals")
    if isinstance(arrival, Constant):
        return 1 / count + 1e-9
    variation = 1.0 if isinstance(arrival, Poisson) else 1 / math.sqrt(arrival.burstiness)
    return max(1 / count, KS_CRITICAL * variation / math.sqrt(count))
