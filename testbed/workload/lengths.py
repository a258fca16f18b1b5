"""Token counts: draw them from the distributions of a spec, scale those, and tell their middle and their end."""

import math
from itertools import accumulate

import numpy as np

from testbed.errors import SpecError
from testbed.spec.lengths import Empirical, GammaLengths, Lengths, Lognormal
from testbed.workload.gamma import gamma_quantile

P95_DEVIATIONS = 1.6448536269514722
"""The 95th percentile of a normal distribution lies this many standard deviations above its median."""


ANSWER_LEAST = 16
"""Answers are not scaled below this many tokens, for in shorter ones wrong KV may not show."""


def draw_length(lengths: Lengths, rng: np.random.Generator) -> int:
    """One token count, at least 1. A fixed length takes nothing from `rng`."""
    if lengths.fixed is not None:
        return lengths.fixed
    if lengths.uniform is not None:
        low, high = lengths.uniform
        return int(rng.integers(low, high + 1))
    if lengths.gamma is not None:
        shape, scale = _gamma(lengths.gamma)
        return max(1, round(float(rng.gamma(shape, scale))))
    if lengths.empirical is not None:
        values = lengths.empirical.values
        return values[int(rng.choice(len(values), p=_chances(lengths.empirical)))]
    lognormal = _lognormal(lengths)
    return max(1, round(float(rng.lognormal(math.log(lognormal.median), _sigma(lognormal)))))


def draw_lengths(lengths: Lengths, rng: np.random.Generator, count: int) -> list[int]:
    """`count` token counts, one after the other."""
    return [draw_length(lengths, rng) for _ in range(count)]


def mean_tokens(lengths: Lengths) -> float:
    """The expected token count; of a lognormal it is median x exp(sigma^2 / 2)."""
    if lengths.lognormal is not None:
        return lengths.lognormal.median * math.exp(_sigma(lengths.lognormal) ** 2 / 2)
    if lengths.gamma is not None:
        return lengths.gamma.mean
    if lengths.empirical is not None:
        chances = _chances(lengths.empirical)
        return sum(value * chance for value, chance in zip(lengths.empirical.values, chances, strict=True))
    return median_tokens(lengths)


def median_tokens(lengths: Lengths) -> float:
    """The token count that half of the draws stay below."""
    if lengths.fixed is not None:
        return float(lengths.fixed)
    if lengths.uniform is not None:
        return sum(lengths.uniform) / 2
    if lengths.gamma is not None:
        return gamma_quantile(*_gamma(lengths.gamma), 0.5)
    if lengths.empirical is not None:
        return float(_middle(lengths.empirical))
    return float(_lognormal(lengths).median)


def long_tokens(lengths: Lengths) -> int:
    """The largest token count that is planned for: the end of a uniform range or of the values that were seen, the 95th
    percentile of a lognormal and of a gamma.
    """
    if lengths.fixed is not None:
        return lengths.fixed
    if lengths.uniform is not None:
        return lengths.uniform[1]
    if lengths.gamma is not None:
        return max(1, round(gamma_quantile(*_gamma(lengths.gamma), 0.95)))
    if lengths.empirical is not None:
        return max(lengths.empirical.values)
    return _lognormal(lengths).p95


def scaled(lengths: Lengths, ratio: float) -> Lengths:
    """The whole distribution times `ratio`, in whole tokens, none below 1."""
    if lengths.fixed is not None:
        return Lengths(fixed=_times(lengths.fixed, ratio))
    if lengths.uniform is not None:
        low, high = lengths.uniform
        return Lengths(uniform=(_times(low, ratio), _times(high, ratio)))
    if lengths.gamma is not None:
        return Lengths(gamma=GammaLengths(mean=max(1.0, lengths.gamma.mean * ratio), cv=lengths.gamma.cv))
    if lengths.empirical is not None:
        values = tuple(_times(value, ratio) for value in lengths.empirical.values)
        return Lengths(empirical=Empirical(values=values, weights=lengths.empirical.weights))
    lognormal = _lognormal(lengths)
    median = _times(lognormal.median, ratio)
    return Lengths(lognormal=Lognormal(median=median, p95=max(median + 1, _times(lognormal.p95, ratio))))


def shorter_answer(tokens: int, ratio: float) -> int:
    """The length of an answer times `ratio`, but not below the least one, or its own length if that is less."""
    return max(min(tokens, ANSWER_LEAST), round(tokens * ratio))


def shorter_text(tokens: int, ratio: float) -> int:
    """The length of a text times `ratio`, at least 1."""
    return _times(tokens, ratio)


def _times(tokens: int, ratio: float) -> int:
    return max(1, round(tokens * ratio))


def _sigma(lognormal: Lognormal) -> float:
    return math.log(lognormal.p95 / lognormal.median) / P95_DEVIATIONS


def _gamma(gamma: GammaLengths) -> tuple[float, float]:
    """Shape and scale: of those the mean is shape x scale, and the deviation over it 1 / sqrt(shape)."""
    shape = 1 / gamma.cv**2
    return shape, gamma.mean / shape


def _chances(empirical: Empirical) -> tuple[float, ...]:
    weights = empirical.weights if empirical.weights is not None else (1.0,) * len(empirical.values)
    return tuple(weight / sum(weights) for weight in weights)


def _middle(empirical: Empirical) -> int:
    """The least value that at least half of the draws do not exceed."""
    ordered = sorted(zip(empirical.values, _chances(empirical), strict=True))
    below = accumulate(chance for _, chance in ordered)
    return next(value for (value, _), share in zip(ordered, below, strict=True) if share >= 0.5 - 1e-9)


def _lognormal(lengths: Lengths) -> Lognormal:
    if lengths.lognormal is None:
        raise SpecError("lengths without a kind", hint=f"give exactly one of {', '.join(Lengths.model_fields)}")
    return lengths.lognormal
