"""Which of many tries becomes the rate of a path."""

import pytest

from testbed.calibrate.rates import Way, path_rate
from testbed.errors import BoundError


def test_the_fastest_way_is_the_rate_and_has_its_own_spread() -> None:
    slow = Way("slow", 1000, (1.0,) * 10)
    # ten tries of 1,000 bytes: one of 0.25 s (4,000 bytes/s), nine of 0.5 s (2,000); (4000 - 2000) / 4000 = 0.5
    fast = Way("fast", 1000, (0.5,) * 5 + (0.25,) + (0.5,) * 4)
    rate = path_rate("memory", [slow, fast])
    assert rate.calibrated_bytes_per_s == 4000.0
    assert rate.spread_ratio == 0.5
    assert rate.tries == 10
    assert rate.source == "this machine, fastest of 2 ways: fast"
    assert rate.nominal_bytes_per_s is None


def test_a_small_copy_counts_by_its_rate_not_by_its_time() -> None:
    # 100 bytes in 0.1 s are 1,000 bytes/s; 10,000 bytes in 1 s are 10,000 bytes/s
    rate = path_rate("memory", [Way("small", 100, (0.1,) * 10), Way("large", 10_000, (1.0,) * 10)])
    assert rate.calibrated_bytes_per_s == 10_000.0


@pytest.mark.parametrize("tries_s", [(1.0,) * 9, (1.0,) * 9 + (0.0,)])
def test_too_few_tries_or_one_without_time_are_refused(tries_s: tuple[float, ...]) -> None:
    with pytest.raises(BoundError, match="path memory, short: needs 10 tries that took time"):
        path_rate("memory", [Way("short", 1000, tries_s)])


def test_a_path_that_was_not_measured_has_no_rate() -> None:
    with pytest.raises(BoundError, match="path memory was not measured"):
        path_rate("memory", [])
