"""Arrival times: a fixed process and seed give fixed times."""

from itertools import islice, takewhile

import numpy as np
import pytest

from testbed.spec.workload import Arrival
from testbed.workload.arrivals import arrival_times_s

POISSON = Arrival(process="poisson", rate=2.0)


def test_constant_arrivals_start_at_zero_and_keep_the_gap() -> None:
    times = arrival_times_s(Arrival(process="constant", rate=10.0), np.random.default_rng(0))
    # 10 a second for 10 s, the first at 0: 100 requests
    assert len(list(takewhile(lambda at_s: at_s < 10.0 - 1e-9, times))) == 100


def test_poisson_arrivals_have_the_rate_and_the_spread_of_one() -> None:
    times = list(islice(arrival_times_s(POISSON, np.random.default_rng(3)), 5000))
    gaps = np.diff(times)
    assert np.mean(gaps) == pytest.approx(0.5, rel=0.05)
    assert np.std(gaps) == pytest.approx(0.5, rel=0.07)
    assert min(gaps) >= 0


def test_another_rate_stretches_the_same_draws() -> None:
    once = list(islice(arrival_times_s(POISSON, np.random.default_rng(3)), 50))
    half = list(islice(arrival_times_s(POISSON, np.random.default_rng(3), rate_ratio=0.5), 50))
    assert half == pytest.approx([2 * at_s for at_s in once])
