"""Percentiles, intervals and ratios."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.metrics.statistics import Ratio, interval, paired_ratio, seed_of, share_interval, statistic
from testbed.missing import Missing

SEED = [7, 1]


def test_percentiles_are_linear_at_rank_n_minus_1_times_q() -> None:
    # ten values: rank 9 x 0.9 = 8.1, so 9 + 0.1 x (100 - 9) = 18.1; rank 4.5: (5 + 6) / 2 = 5.5
    ten = [1.0, 2, 3, 4, 5, 6, 7, 8, 9, 100]
    assert statistic(ten, "p90") == pytest.approx(18.1)
    assert statistic(ten, "p50") == pytest.approx(5.5)


def test_p95_of_twenty_and_p99_of_a_hundred() -> None:
    # 0..19: rank 19 x 0.95 = 18.05; 0..99: rank 99 x 0.99 = 98.01
    assert statistic([float(k) for k in range(20)], "p95") == pytest.approx(18.05)
    assert statistic([float(k) for k in range(100)], "p99") == pytest.approx(98.01)


@pytest.mark.parametrize(("name", "n"), [("p95", 19), ("p99", 99), ("p50", 0), ("mean", 0)])
def test_too_few_samples_have_no_percentile(name: str, n: int) -> None:
    found = statistic([1.0] * n, name)
    assert isinstance(found, Missing)
    assert f"n={n}" in found.reason


def test_a_total_of_nothing_asked_is_refused() -> None:
    assert isinstance(statistic([], "total"), Missing)
    assert statistic([1.5, 2.5], "total") == 4.0


def test_the_interval_of_equal_samples_is_that_value() -> None:
    assert interval([2.0] * 30, "p50", SEED) == (2.0, 2.0)


def test_the_interval_is_the_same_for_the_same_seed_only() -> None:
    values = [float(k * k % 97) for k in range(40)]
    assert interval(values, "mean", SEED) == interval(values, "mean", SEED)
    assert interval(values, "mean", SEED) != interval(values, "mean", [8, 1])


def test_the_interval_of_a_mean_agrees_with_the_normal_formula() -> None:
    # 0..99: mean 49.5, standard deviation 28.87, so 49.5 +- 1.96 x 2.887 = 43.84 to 55.16
    found = interval([float(k) for k in range(100)], "mean", SEED)
    assert found == pytest.approx((43.84, 55.16), abs=0.6)


def test_the_interval_of_many_values_goes_by_ranks() -> None:
    # n = 40,000: rank 20,000 +- 1.96 x sqrt(40,000 / 4) = 196
    found = interval([float(k) for k in range(40_000)], "p50", SEED)
    assert found == (19_804.0, 20_196.0)


def test_four_values_have_no_interval() -> None:
    assert isinstance(interval([1.0, 2, 3, 4], "p50", SEED), Missing)


def test_a_paired_ratio_of_halves_is_one_half_with_no_width() -> None:
    # each request takes half as long, so every resample has the ratio 0.5, however different the requests are
    found = paired_ratio([(k / 2, float(k)) for k in range(1, 30)], SEED)
    assert found == Ratio(0.5, 0.5, 0.5, 29)
    assert isinstance(found, Ratio)
    assert not found.no_difference_seen


def test_equal_arms_show_no_difference() -> None:
    found = paired_ratio([(float(k % 5 + 1), float((k + 2) % 5 + 1)) for k in range(50)], SEED)
    assert isinstance(found, Ratio)
    assert found.no_difference_seen


def test_four_pairs_have_no_ratio() -> None:
    assert isinstance(paired_ratio([(1.0, 1.0)] * 4, SEED), Missing)


def test_a_median_of_zero_is_no_denominator() -> None:
    assert isinstance(paired_ratio([(1.0, 0.0)] * 9, SEED), Missing)


def test_wilson_interval_by_hand() -> None:
    # 0 of 50: upper = z^2 / (n + z^2) = 3.8415 / 53.8415 = 0.07135
    assert _pair(share_interval(0, 50)) == pytest.approx((0.0, 0.07135), abs=1e-5)
    # 8 of 10: (0.8 + 0.19207) / 1.38415 = 0.71674; half 1.95996 / 1.38415 x sqrt(0.016 + 0.0096036) = 0.22658
    assert _pair(share_interval(8, 10)) == pytest.approx((0.49016, 0.94332), abs=1e-4)
    assert isinstance(share_interval(0, 0), Missing)


def _pair(found: tuple[float, float] | Missing) -> tuple[float, float]:
    assert not isinstance(found, Missing)
    return found


@given(st.lists(st.floats(0.001, 1000), min_size=20, max_size=60))
def test_percentiles_lie_inside_and_in_order(values: list[float]) -> None:
    p50, p95 = statistic(values, "p50"), statistic(values, "p95")
    assert not isinstance(p50, Missing)
    assert not isinstance(p95, Missing)
    assert min(values) <= p50 <= p95 <= max(values)


@given(st.lists(st.floats(0.01, 100), min_size=5, max_size=40))
def test_an_interval_holds_no_value_that_was_never_seen(values: list[float]) -> None:
    low, high = _pair(interval(values, "p50", SEED))
    assert min(values) <= low <= high <= max(values)


def test_each_number_has_a_seed_of_its_own() -> None:
    assert seed_of(7, "ttft_s", "a") != seed_of(7, "ttft_s", "b")
    assert seed_of(7, "ttft_s", "a") == seed_of(7, "ttft_s", "a")
