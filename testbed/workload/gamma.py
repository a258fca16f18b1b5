"""Quantiles of the gamma distribution. There is no formula for them: the series for its share is halved towards one."""

import math

from testbed.errors import BoundError

_EXACT = 1e-12


def gamma_share(shape: float, at: float) -> float:
    """The share of a gamma distribution of scale 1 that lies below `at`.

    Source: the power series of the lower incomplete gamma function, x^k e^-x sum_n x^n / gamma(k + n + 1).
    """
    if at <= 0:
        return 0.0
    term = math.exp(shape * math.log(at) - at - math.lgamma(shape + 1))
    total, number = term, shape
    while term > total * _EXACT or number < at:
        number += 1
        term *= at / number
        total += term
    return min(1.0, total)


def gamma_quantile(shape: float, scale: float, share: float) -> float:
    """The value below which `share` of a gamma distribution lies.

    Raises: BoundError unless 0 < share < 1.
    """
    if not 0 < share < 1:
        raise BoundError(f"a quantile needs a share between 0 and 1, not {share:g}")
    low, high = 0.0, max(1.0, shape)
    while gamma_share(shape, high) < share:
        high *= 2
    while high - low > _EXACT * high:
        middle = (low + high) / 2
        low, high = (middle, high) if gamma_share(shape, middle) < share else (low, middle)
    return scale * high
