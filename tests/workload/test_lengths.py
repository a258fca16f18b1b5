"""Token counts: drawn, scaled and summed up as the spec says."""

import math

import numpy as np
import pytest

from testbed.spec.workload import Lengths, Lognormal
from testbed.workload.lengths import draw_length, draw_lengths, long_tokens, mean_tokens, median_tokens, scaled

CHAT = Lengths(lognormal=Lognormal(median=60, p95=240))


def test_a_fixed_length_is_always_that_and_takes_no_random_number() -> None:
    rng, untouched = np.random.default_rng(1), np.random.default_rng(1)
    assert draw_lengths(Lengths(fixed=32), rng, 5) == [32] * 5
    assert rng.random() == untouched.random()


def test_uniform_lengths_reach_both_ends_and_nothing_beyond() -> None:
    drawn = draw_lengths(Lengths(uniform=(3, 6)), np.random.default_rng(1), 400)
    assert set(drawn) == {3, 4, 5, 6}


def test_lognormal_lengths_have_the_median_and_p95_of_the_spec() -> None:
    drawn = draw_lengths(CHAT, np.random.default_rng(1), 20_000)
    assert np.quantile(drawn, 0.5) == pytest.approx(60, rel=0.03)
    assert np.quantile(drawn, 0.95) == pytest.approx(240, rel=0.05)


def test_no_length_is_below_one() -> None:
    rng = np.random.default_rng(1)
    tiny = Lengths(lognormal=Lognormal(median=1, p95=100))
    assert min(draw_length(tiny, rng) for _ in range(2000)) == 1


def test_mean_of_a_lognormal_is_above_its_median() -> None:
    # sigma = ln(240 / 60) / 1.64485 = 1.386294 / 1.644854 = 0.842807; mean = 60 x exp(0.842807^2 / 2) = 60 x 1.42642
    assert mean_tokens(CHAT) == pytest.approx(85.585, abs=0.01)
    assert mean_tokens(CHAT) == pytest.approx(np.mean(draw_lengths(CHAT, np.random.default_rng(2), 50_000)), rel=0.03)


def test_median_mean_and_long_end_of_a_uniform() -> None:
    lengths = Lengths(uniform=(1200, 2400))
    assert (median_tokens(lengths), mean_tokens(lengths), long_tokens(lengths)) == (1800, 1800, 2400)


def test_scaling_takes_the_whole_distribution_along() -> None:
    assert scaled(Lengths(uniform=(1200, 2400)), 0.25) == Lengths(uniform=(300, 600))
    assert scaled(Lengths(fixed=3), 0.01) == Lengths(fixed=1)
    assert scaled(CHAT, 0.5) == Lengths(lognormal=Lognormal(median=30, p95=120))
    assert scaled(CHAT, 0.001) == Lengths(lognormal=Lognormal(median=1, p95=2))
    assert math.isclose(median_tokens(scaled(CHAT, 2)), 120)
