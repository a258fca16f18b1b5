"""Token counts: drawn, scaled and summed up as the spec says."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.errors import BoundError
from testbed.spec.lengths import Empirical, GammaLengths, Lengths, Lognormal
from testbed.workload.gamma import gamma_quantile, gamma_share
from testbed.workload.lengths import (
    draw_length,
    draw_lengths,
    long_tokens,
    mean_tokens,
    median_tokens,
    scaled,
    shorter_answer,
    shorter_text,
)

CHAT = Lengths(lognormal=Lognormal(median=60, p95=240))
WIDE = Lengths(gamma=GammaLengths(mean=200.0, cv=1.0))
SEEN = Lengths(empirical=Empirical(values=(900, 10, 40), weights=(1.0, 5.0, 4.0)))


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


def test_gamma_lengths_have_the_mean_and_the_spread_of_the_spec() -> None:
    lengths = Lengths(gamma=GammaLengths(mean=200.0, cv=0.5))
    drawn = draw_lengths(lengths, np.random.default_rng(1), 20_000)
    assert np.mean(drawn) == pytest.approx(200, rel=0.02)
    assert np.std(drawn) == pytest.approx(100, rel=0.03)
    assert mean_tokens(lengths) == 200


def test_median_and_long_end_of_a_gamma() -> None:
    # cv 1 is an exponential of mean 200: median 200 x ln 2 = 138.629, 95th percentile 200 x ln 20 = 599.15
    assert median_tokens(WIDE) == pytest.approx(138.629, abs=0.001)
    assert long_tokens(WIDE) == 599


def test_seen_lengths_come_as_often_as_their_weights_say_and_no_others_come() -> None:
    drawn = draw_lengths(SEEN, np.random.default_rng(1), 10_000)
    assert set(drawn) == {10, 40, 900}
    # 5 of 10, deviation sqrt(10,000 x 0.5 x 0.5) = 50
    assert drawn.count(10) == pytest.approx(5000, abs=200)
    # 10 x 0.5 + 40 x 0.4 + 900 x 0.1 = 111; half of them are 10
    assert (round(mean_tokens(SEEN), 9), median_tokens(SEEN), long_tokens(SEEN)) == (111, 10, 900)


def test_seen_lengths_without_weights_are_all_alike() -> None:
    lengths = Lengths(empirical=Empirical(values=(30, 10, 20)))
    assert (round(mean_tokens(lengths), 9), median_tokens(lengths)) == (20, 20)


def test_scaling_keeps_the_form_of_gamma_and_seen_lengths() -> None:
    assert scaled(WIDE, 0.5) == Lengths(gamma=GammaLengths(mean=100.0, cv=1.0))
    assert scaled(WIDE, 0.0001) == Lengths(gamma=GammaLengths(mean=1.0, cv=1.0))
    assert scaled(SEEN, 0.1) == Lengths(empirical=Empirical(values=(90, 1, 4), weights=(1.0, 5.0, 4.0)))


def test_answers_are_not_scaled_below_sixteen_tokens_nor_made_longer() -> None:
    assert [shorter_answer(tokens, 0.05) for tokens in (1000, 128, 10)] == [50, 16, 10]
    assert [shorter_text(tokens, 0.05) for tokens in (1000, 128, 10)] == [50, 6, 1]
    assert [shorter_answer(7, 1.0), shorter_text(7, 1.0)] == [7, 7]


TOKENS = st.integers(1, 500)
LENGTHS = st.one_of(
    st.builds(lambda low, more: Lengths(uniform=(low, low + more)), TOKENS, TOKENS),
    st.builds(lambda values: Lengths(empirical=Empirical(values=tuple(values))), st.lists(TOKENS, min_size=1)),
    st.builds(lambda mean, cv: Lengths(gamma=GammaLengths(mean=mean, cv=cv)), st.floats(1, 900), st.floats(0.05, 3)),
    st.builds(lambda low, more: Lengths(lognormal=Lognormal(median=low, p95=low + more)), TOKENS, TOKENS),
)


@settings(max_examples=40)
@given(lengths=LENGTHS, seed=st.integers(0, 2**32))
def test_draws_lie_within_their_limits(lengths: Lengths, seed: int) -> None:
    drawn = draw_lengths(lengths, np.random.default_rng(seed), 50)
    assert min(drawn) >= 1
    if lengths.uniform is not None:
        assert lengths.uniform[0] <= min(drawn) <= max(drawn) <= lengths.uniform[1]
    if lengths.empirical is not None:
        assert set(drawn) <= set(lengths.empirical.values)
    assert median_tokens(lengths) <= long_tokens(lengths) + 0.5


@settings(max_examples=40)
@given(shape=st.floats(0.05, 200), share=st.floats(0.01, 0.99))
def test_a_gamma_quantile_has_its_share_below_it(shape: float, share: float) -> None:
    assert gamma_share(shape, gamma_quantile(shape, 1.0, share)) == pytest.approx(share, abs=1e-9)


def test_a_gamma_share_by_hand() -> None:
    # shape 2: 1 - (1 + x) e^-x; at 3 that is 1 - 4 x 0.0497871 = 0.8008517
    assert gamma_share(2.0, 3.0) == pytest.approx(0.8008517, abs=1e-7)
    assert gamma_share(2.0, 0.0) == 0.0


@pytest.mark.parametrize("share", [0.0, 1.0, 1.5])
def test_a_quantile_outside_of_all_shares_is_refused(share: float) -> None:
    with pytest.raises(BoundError, match="between 0 and 1"):
        gamma_quantile(1.0, 1.0, share)
