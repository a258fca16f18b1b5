"""How far arrivals lie from their process: by hand, and how often a right schedule is called wrong."""

import math
from itertools import takewhile
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter

from testbed.missing import Missing
from testbed.spec.arrival import Arrival
from testbed.workload.arrivals import arrival_times_s
from testbed.workload.fidelity import intended_cdf, ks_distance, ks_limit

ARRIVAL: TypeAdapter[Any] = TypeAdapter(Arrival)


def process(**keys: Any) -> Any:
    return ARRIVAL.validate_python(keys)


def poisson(rate: float) -> Any:
    return process(process="poisson", rate=rate)


def distance(arrival: Any, times_s: list[float], duration_s: float) -> float:
    cdf = intended_cdf(arrival, duration_s)
    assert cdf is not None
    found = ks_distance(times_s, cdf)
    assert not isinstance(found, Missing)
    return found


def test_the_distance_by_hand() -> None:
    # an even share over 10 s; arrivals at 1, 2 and 7 s: after the second one 2/3 have come where 0.2 should have
    assert distance(poisson(1.0), [7.0, 1.0, 2.0], 10.0) == pytest.approx(2 / 3 - 0.2)
    # late ones: before the first, at 8 s, none has come where 0.8 should have
    assert distance(poisson(1.0), [8.0, 9.0], 10.0) == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("arrival", "at_s", "share"),
    [
        (process(process="constant", rate=5), 2.5, 0.25),
        # bursts in 10 s: on 0..2 and 5..7; by 6 s there were 3 of 4 busy seconds
        (process(process="bursts", on="2s", off="3s", rate=4), 6.0, 0.75),
        (process(process="bursts", on="2s", off="3s", rate=4), 4.0, 0.5),
        # a ramp from 0: the share grows with the square
        (process(process="ramp", **{"from": 0, "to": 4}), 5.0, 0.25),
        # 1 x 5 of 1 x 5 + 3 x 5
        (process(process="step", steps=[{"rate": 1, "for": "5s"}, {"rate": 3, "for": "5s"}]), 5.0, 0.25),
        (poisson(3.0), -1.0, 0.0),
        (poisson(3.0), 99.0, 1.0),
    ],
)
def test_the_intended_share_by_hand(arrival: Any, at_s: float, share: float) -> None:
    cdf = intended_cdf(arrival, 10.0)
    assert cdf is not None
    assert cdf(at_s) == pytest.approx(share)


def test_a_closed_loop_has_no_intended_arrivals() -> None:
    closed = process(process="closed", concurrency=3)
    assert intended_cdf(closed, 10.0) is None
    assert ks_limit(closed, 10) == Missing("a closed loop has no intended arrivals")


def test_without_arrivals_there_is_no_distance() -> None:
    assert ks_distance([], lambda at_s: at_s) == Missing("nothing arrived")
    assert ks_limit(poisson(1.0), 0) == Missing("nothing arrived")


def test_the_limit_by_hand() -> None:
    # 1.36 / sqrt(100); a gamma of shape 0.25 varies twice as much; constant arrivals move by one request
    assert ks_limit(poisson(1.0), 100) == pytest.approx(0.136)
    assert ks_limit(process(process="gamma", rate=1, burstiness=0.25), 100) == pytest.approx(0.272)
    assert ks_limit(process(process="constant", rate=1), 100) == pytest.approx(0.01)


PROCESSES = (
    poisson(4.0),
    process(process="gamma", rate=4, burstiness=0.5),
    process(process="gamma", rate=4, burstiness=4),
    process(process="bursts", on="3s", off="7s", rate=12),
    process(process="ramp", **{"from": 1, "to": 7}),
    process(process="step", steps=[{"rate": 2, "for": "20s"}, {"rate": 6, "for": "20s"}]),
)


@pytest.mark.parametrize("arrival", PROCESSES)
def test_a_right_schedule_exceeds_the_limit_about_once_in_twenty_times(arrival: Any) -> None:
    beyond = 0
    for seed in range(100):
        endless = arrival_times_s(arrival, np.random.default_rng(seed), duration_s=50.0)
        times = list(takewhile(lambda at_s: at_s < 50.0, endless))
        limit = ks_limit(arrival, len(times))
        assert not isinstance(limit, Missing)
        beyond += distance(arrival, times, 50.0) > limit
    # 5 of 100 are expected; more than 5 + 3 x sqrt(100 x 0.05 x 0.95) = 11.5 would not be chance
    assert beyond <= 11


@pytest.mark.parametrize("rate", [1.0, 3.7, 0.33])
def test_constant_arrivals_keep_their_limit_at_any_rate(rate: float) -> None:
    arrival = process(process="constant", rate=rate)
    endless = arrival_times_s(arrival, np.random.default_rng(0))
    times = list(takewhile(lambda at_s: at_s < 50.0, endless))
    limit = ks_limit(arrival, len(times))
    assert not isinstance(limit, Missing)
    assert distance(arrival, times, 50.0) <= limit


def test_a_client_that_stands_still_for_a_tenth_of_the_time_is_seen() -> None:
    times = [at_s / 20 for at_s in range(1000)]  # even, 20 a second for 50 s
    held = [max(at_s, 30.0) if 25.0 <= at_s < 30.0 else at_s for at_s in times]
    # just before 30 s, 500 of 1000 have gone out where 0.6 should have
    assert distance(poisson(20.0), held, 50.0) == pytest.approx(0.1)
    assert distance(poisson(20.0), held, 50.0) > 1.36 / math.sqrt(1000)
