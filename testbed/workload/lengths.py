"""Token counts: draw them from the distributions of a spec, scale those, and tell their middle and their end."""

import math

import numpy as np

from testbed.errors import SpecError
from testbed.spec.workload import Lengths, Lognormal

P95_DEVIATIONS = 1.6448536269514722
"""The 95th percentile of a normal distribution lies this many standard deviations above its median."""


def draw_length(lengths: Lengths, rng: np.random.Generator) -> int:
    """One token count, at least 1. A fixed length takes nothing from `rng`."""
    if lengths.fixed is not None:
        return lengths.fixed
    if lengths.uniform is not None:
        low, high = lengths.uniform
        return int(rng.integers(low, high + 1))
    lognormal = _lognormal(lengths)
    return max(1, round(float(rng.lognormal(math.log(lognormal.median), _sigma(lognormal)))))


def draw_lengths(lengths: Lengths, rng: np.random.Generator, count: int) -> list[int]:
    """`count` token counts, one after the other."""
    return [draw_length(lengths, rng) for _ in range(count)]


def mean_tokens(lengths: Lengths) -> float:
    """The expected token count; of a lognormal it is median x exp(sigma^2 / 2)."""
    if lengths.lognormal is not None:
        return lengths.lognormal.median * math.exp(_sigma(lengths.lognormal) ** 2 / 2)
    return median_tokens(lengths)


def median_tokens(lengths: Lengths) -> float:
    """The token count that half of the draws stay below."""
    if lengths.fixed is not None:
        return float(lengths.fixed)
    if lengths.uniform is not None:
        return sum(lengths.uniform) / 2
    return float(_lognormal(lengths).median)


def long_tokens(lengths: Lengths) -> int:
    """The largest token count that is planned for: the end of a uniform range, the 95th percentile of a lognormal."""
    if lengths.fixed is not None:
        return lengths.fixed
    if lengths.uniform is not None:
        return lengths.uniform[1]
    return _lognormal(lengths).p95


def scaled(lengths: Lengths, ratio: float) -> Lengths:
    """The whole distribution times `ratio`, in whole tokens, none below 1."""
    if lengths.fixed is not None:
        return Lengths(fixed=_times(lengths.fixed, ratio))
    if lengths.uniform is not None:
        low, high = lengths.uniform
        return Lengths(uniform=(_times(low, ratio), _times(high, ratio)))
    lognormal = _lognormal(lengths)
    median = _times(lognormal.median, ratio)
    return Lengths(lognormal=Lognormal(median=median, p95=max(median + 1, _times(lognormal.p95, ratio))))


def _times(tokens: int, ratio: float) -> int:
    return max(1, round(tokens * ratio))


def _sigma(lognormal: Lognormal) -> float:
    return math.log(lognormal.p95 / lognormal.median) / P95_DEVIATIONS


def _lognormal(lengths: Lengths) -> Lognormal:
    if lengths.lognormal is None:
        raise SpecError("lengths without a kind", hint="give exactly one of fixed, uniform, lognormal")
    return lengths.lognormal
