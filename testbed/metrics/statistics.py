"""Percentiles, intervals and ratios of samples. Chance comes from a seed that the caller gives."""

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from testbed.missing import Missing

# A percentile is resolved only where at least one sample is expected beyond it, with some room.
SMALLEST_N = {"p50": 1, "mean": 1, "p90": 10, "p95": 20, "p99": 100}
QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
SMALLEST_N_FOR_INTERVAL = 5
RESAMPLES = 1000
# Above this a bootstrap of ranks costs seconds and says the same as the binomial formula.
LARGE_N = 1000
_CHUNK = 4_000_000
_Z95 = 1.959963984540054

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Ratio:
    """Median of one arm over the median of another, on the same planned requests, with its 95 % interval."""

    value: float
    low: float
    high: float
    n: int

    @property
    def no_difference_seen(self) -> bool:
        """True where the interval contains 1."""
        return self.low <= 1.0 <= self.high


def seed_of(seed: int, *names: str) -> list[int]:
    """A seed for one number of a report, so that no number depends on which others are computed."""
    return [seed, zlib.crc32("|".join(names).encode())]


def statistic(values: Sequence[float], name: str) -> float | Missing:
    """`mean`, `total`, or a percentile such as `p95` (linear interpolation at rank (n-1)q).

    Missing where there are fewer values than the statistic needs.
    """
    needed = SMALLEST_N.get(name, 1)
    if len(values) < needed:
        return Missing(f"n={len(values)}, {name} needs {needed}")
    if name == "total":
        return float(math.fsum(values))
    if name == "mean":
        return math.fsum(values) / len(values)
    return float(np.quantile(np.asarray(values, dtype=np.float64), QUANTILES[name]))


def interval(values: Sequence[float], name: str, seed: list[int]) -> tuple[float, float] | Missing:
    """95 % interval of a mean or percentile, by resampling; of many values, by their ranks."""
    if name == "total":
        return Missing("a total is a count, not a sample")
    if len(values) < max(SMALLEST_N_FOR_INTERVAL, SMALLEST_N[name]):
        return Missing(f"n={len(values)} is too small for an interval")
    samples = np.sort(np.asarray(values, dtype=np.float64))
    if len(samples) > LARGE_N:
        return _large_interval(samples, name)
    low, high = np.quantile(_resampled(samples, name, seed), [0.025, 0.975])
    return float(low), float(high)


def _resampled(samples: Floats, name: str, seed: list[int]) -> Floats:
    generator = np.random.default_rng(seed)
    parts = []
    for count in _chunks(len(samples)):
        drawn = samples[generator.integers(0, len(samples), size=(count, len(samples)))]
        parts.append(drawn.mean(axis=1) if name == "mean" else np.quantile(drawn, QUANTILES[name], axis=1))
    return np.concatenate(parts)


def _chunks(n: int) -> list[int]:
    """Resamples to draw at a time, so that memory stays bounded."""
    at_once = max(1, _CHUNK // n)
    return [min(at_once, RESAMPLES - done) for done in range(0, RESAMPLES, at_once)]


def _large_interval(samples: Floats, name: str) -> tuple[float, float]:
    n = len(samples)
    if name == "mean":
        half = _Z95 * float(samples.std(ddof=1)) / math.sqrt(n)
        mean = float(samples.mean())
        return mean - half, mean + half
    q = QUANTILES[name]
    half = _Z95 * math.sqrt(n * q * (1 - q))
    low, high = max(0, math.floor(n * q - half)), min(n - 1, math.ceil(n * q + half))
    return float(samples[low]), float(samples[high])


def paired_ratio(pairs: Sequence[tuple[float, float]], seed: list[int]) -> Ratio | Missing:
    """Median of the first values over the median of the second, with an interval from resampled pairs.

    A pair is the same planned request in two arms, so that what both share does not widen the interval.
    """
    if len(pairs) < SMALLEST_N_FOR_INTERVAL:
        return Missing(f"{len(pairs)} requests have a value in both arms, {SMALLEST_N_FOR_INTERVAL} are needed")
    both = np.asarray(pairs, dtype=np.float64)
    if not float(np.median(both[:, 1])) > 0:
        return Missing("the median below the line is 0")
    generator = np.random.default_rng(seed)
    parts = []
    for count in _chunks(len(both)):
        drawn = both[generator.integers(0, len(both), size=(count, len(both)))]
        medians = np.median(drawn, axis=1)
        parts.append(medians[medians[:, 1] > 0, 0] / medians[medians[:, 1] > 0, 1])
    low, high = np.quantile(np.concatenate(parts), [0.025, 0.975])
    value = float(np.median(both[:, 0]) / np.median(both[:, 1]))
    return Ratio(value, float(low), float(high), len(both))


def share_interval(hits: int, n: int) -> tuple[float, float] | Missing:
    """95 % interval of a share (Wilson), which stays inside 0..1 and is not empty at 0 of n."""
    if n == 0:
        return Missing("n=0")
    share, z2 = hits / n, _Z95**2
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = _Z95 / (1 + z2 / n) * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    return max(0.0, middle - half), min(1.0, middle + half)
