"""Arrival times: a fixed process and seed give fixed times, at the rate and with the clustering that was asked for."""

import math
from itertools import islice, takewhile
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from testbed.spec.arrival import Arrival, Bursts, Gamma, OpenArrival, Poisson, Ramp, Step
from testbed.workload.arrivals import arrival_times_s
from testbed.workload.rates import at_ratio, expected_count, mean_rate, moment_s, usual_rate

ARRIVAL: TypeAdapter[Any] = TypeAdapter(Arrival)
DURATION_S = 1000.0


def process(**keys: Any) -> Any:
    """An open process as a file would say it."""
    return ARRIVAL.validate_python(keys)


POISSON = process(process="poisson", rate=2.0)
BURSTS = process(process="bursts", on="5s", off="15s", rate=8)
RAMP = process(process="ramp", **{"from": 1, "to": 3})
STEP = process(process="step", steps=[{"rate": 1, "for": "100s"}, {"rate": 4, "for": "50s"}, {"rate": 2, "for": "1s"}])
EVERY = (
    process(process="constant", rate=2.0), POISSON, process(process="gamma", rate=2, burstiness=0.5),
    process(process="gamma", rate=2, burstiness=4), BURSTS, RAMP, STEP,
)
OPEN = st.sampled_from(EVERY)


def times_s(arrival: OpenArrival, seed: int = 3, duration_s: float = DURATION_S) -> list[float]:
    """All arrivals of one window."""
    endless = arrival_times_s(arrival, np.random.default_rng(seed), duration_s=duration_s)
    return list(takewhile(lambda at_s: at_s < duration_s, endless))


def test_constant_arrivals_start_at_zero_and_keep_the_gap() -> None:
    # 10 a second for 10 s, the first at 0: 100 requests
    assert len(times_s(process(process="constant", rate=10.0), duration_s=10.0 - 1e-9)) == 100


def test_poisson_arrivals_have_the_rate_and_the_spread_of_one() -> None:
    times = list(islice(arrival_times_s(POISSON, np.random.default_rng(3)), 5000))
    gaps = np.diff(times)
    assert np.mean(gaps) == pytest.approx(0.5, rel=0.05)
    assert np.std(gaps) == pytest.approx(0.5, rel=0.07)
    assert min(gaps) >= 0


@pytest.mark.parametrize("burstiness", [0.25, 4.0])
def test_gamma_gaps_vary_by_one_over_the_root_of_the_burstiness(burstiness: float) -> None:
    arrival = Gamma(process="gamma", rate=2.0, burstiness=burstiness)
    gaps = np.diff(list(islice(arrival_times_s(arrival, np.random.default_rng(5)), 20_000)))
    # a gamma of shape k has deviation / mean = 1 / sqrt(k): 2 and 0.5
    assert np.std(gaps) / np.mean(gaps) == pytest.approx(1 / math.sqrt(burstiness), rel=0.05)
    assert np.mean(gaps) == pytest.approx(0.5, rel=0.06)


def test_a_burstiness_of_one_is_poisson_to_the_bit() -> None:
    assert times_s(Gamma(process="gamma", rate=2.0, burstiness=1.0)) == times_s(POISSON)


def test_bursts_send_in_their_first_seconds_only() -> None:
    places = [at_s % 20.0 for at_s in times_s(BURSTS)]
    # 50 bursts of 5 s at 8 a second: 2000 expected, deviation sqrt(2000) = 45
    assert max(places) <= 5.0
    assert len(places) == pytest.approx(2000, abs=4 * 45)


def test_a_ramp_moves_from_its_first_to_its_last_rate() -> None:
    times = times_s(RAMP)
    # rate 1 + 2 t / 1000: the first half has 1 x 500 + 2 x 500^2 / 2000 = 750, the second 1250
    first = sum(at_s < 500 for at_s in times)
    assert first == pytest.approx(750, abs=4 * math.sqrt(750))
    assert len(times) - first == pytest.approx(1250, abs=4 * math.sqrt(1250))


def test_each_step_has_its_rate_and_the_last_one_stays() -> None:
    times = times_s(STEP)
    counts = [sum(low <= at_s < high for at_s in times) for low, high in ((0, 100), (100, 150), (150, 1000))]
    # 1 x 100, 4 x 50, 2 x 850
    for count, expected in zip(counts, (100, 200, 1700), strict=True):
        assert count == pytest.approx(expected, abs=4 * math.sqrt(expected))


@pytest.mark.parametrize("arrival", EVERY)
def test_another_rate_stretches_the_same_draws(arrival: OpenArrival) -> None:
    doubled = list(islice(arrival_times_s(arrival, np.random.default_rng(3), 2.0, DURATION_S), 50))
    once = list(islice(arrival_times_s(arrival, np.random.default_rng(3), 1.0, DURATION_S), 50))
    counts = [expected_count(arrival, at_s, DURATION_S) for at_s in once]
    assert [expected_count(at_ratio(arrival, 2.0), at_s, DURATION_S) for at_s in doubled] == pytest.approx(counts)
    assert all(late <= early for late, early in zip(doubled, once, strict=True))


@settings(max_examples=30)
@given(arrival=OPEN, seed=st.integers(0, 2**32))
def test_times_rise_and_their_number_lies_where_its_variance_allows(arrival: OpenArrival, seed: int) -> None:
    times = times_s(arrival, seed)
    expected = expected_count(arrival, DURATION_S, DURATION_S)
    # The number of renewals has variance n / burstiness; 6 deviations, and one gap for where the window begins.
    variance = expected / getattr(arrival, "burstiness", 1.0)
    assert times == sorted(times)
    assert times[0] >= 0
    assert abs(len(times) - expected) <= 6 * math.sqrt(variance) + 1


@given(arrival=OPEN, count=st.floats(0.001, 900))
def test_the_moment_of_a_count_has_that_count_before_it(arrival: OpenArrival, count: float) -> None:
    at_s = moment_s(arrival, count, DURATION_S)
    assert expected_count(arrival, at_s, DURATION_S) == pytest.approx(count)


def test_counts_and_moments_by_hand() -> None:
    # bursts: 21 s are one cycle of 20 s with 40 arrivals, and 1 s with 8
    assert expected_count(BURSTS, 21.0, DURATION_S) == pytest.approx(48)
    assert expected_count(BURSTS, 19.0, DURATION_S) == pytest.approx(40)
    assert moment_s(BURSTS, 44.0, DURATION_S) == pytest.approx(20.5)
    # ramp over 1000 s: 1 x 100 + 2 x 100^2 / 2000 = 110 by 100 s
    assert expected_count(RAMP, 100.0, DURATION_S) == pytest.approx(110)
    assert moment_s(RAMP, 110.0, DURATION_S) == pytest.approx(100)
    # past its end the last rate stays: 2000 by 1000 s, then 3 a second
    assert moment_s(RAMP, 2030.0, DURATION_S) == pytest.approx(1010)
    # steps: 100 by 100 s, then 4 a second
    assert moment_s(STEP, 120.0, DURATION_S) == pytest.approx(105)
    assert mean_rate(RAMP, DURATION_S) == pytest.approx(2.0)


def test_a_ramp_to_nothing_ends() -> None:
    falling = process(process="ramp", **{"from": 2, "to": 0})
    # 2 x 1000 / 2 = 1000 arrivals in all
    assert moment_s(falling, 999.999, DURATION_S) == pytest.approx(1000, abs=2)
    assert moment_s(falling, 1001.0, DURATION_S) == math.inf


def test_where_no_duration_is_set_a_rate_is_that_of_one_cycle_or_of_all_steps() -> None:
    # bursts: 40 in 20 s; steps: 100 + 200 + 2 in 151 s
    assert usual_rate(BURSTS, None) == pytest.approx(2.0)
    assert usual_rate(STEP, None) == pytest.approx(2.0)
    assert usual_rate(STEP, DURATION_S) == pytest.approx(2.0)
    assert usual_rate(POISSON, None) == 2.0


def test_kinds_are_told_by_their_process() -> None:
    assert [type(each) for each in (POISSON, BURSTS, RAMP, STEP)] == [Poisson, Bursts, Ramp, Step]
