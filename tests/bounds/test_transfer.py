"""Least transfer times, by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.bounds.transfer import bytes_per_s_of_gbit, transfer_bound_s, transfer_pipelined_s, transfer_serial_s
from testbed.errors import BoundError

GIB = 2**30


@pytest.mark.parametrize(
    ("gbit_per_s", "expected_s"),
    [
        (400, 0.02147483648),  # 1,073,741,824 B / 50e9 B/s
        (200, 0.04294967296),  # / 25e9
        (100, 0.08589934592),  # / 12.5e9
        (25, 0.34359738368),  # / 3.125e9
        (10, 0.8589934592),  # / 1.25e9
    ],
)
def test_one_gib_over_a_link(gbit_per_s: float, expected_s: float) -> None:
    assert transfer_bound_s(GIB, bytes_per_s_of_gbit(gbit_per_s)) == pytest.approx(expected_s, rel=1e-12)


def test_serial_operations_add_their_cost() -> None:
    # 4,294,967,296 / 50e9 = 0.08589934592; + 2,048 x 10 us = 0.02048
    assert transfer_serial_s(4 * GIB, 50e9, operations=2048, operation_s=1e-5) == pytest.approx(0.10637934592)
    # 131,072 operations of 32 KiB: + 1.31072
    assert transfer_serial_s(4 * GIB, 50e9, operations=131_072, operation_s=1e-5) == pytest.approx(1.39661934592)


def test_pipelined_operations_hide_behind_the_bytes() -> None:
    # max(0.08589934592, 131,072 x 10 us / 64 = 0.02048)
    found = transfer_pipelined_s(4 * GIB, 50e9, operations=131_072, operation_s=1e-5, in_flight=64)
    assert found == pytest.approx(0.08589934592)


def test_a_gbit_is_a_billion_bits() -> None:
    # 25e9 / 8; read as 2^30 it would be 3,355,443,200
    assert bytes_per_s_of_gbit(25) == 3.125e9


@given(st.integers(0, 2**50), st.floats(1, 1e13), st.integers(1, 1000))
def test_the_bound_is_linear_in_bytes_and_falls_with_the_rate(size: int, rate: float, times: int) -> None:
    assert transfer_bound_s(size * times, rate) == pytest.approx(times * transfer_bound_s(size, rate))
    assert transfer_bound_s(size, rate * 2) <= transfer_bound_s(size, rate)


@given(st.integers(0, 2**40), st.integers(0, 10**6), st.integers(1, 256))
def test_no_model_beats_the_bound(size: int, operations: int, in_flight: int) -> None:
    bound_s = transfer_bound_s(size, 1e9)
    piped_s = transfer_pipelined_s(size, 1e9, operations=operations, operation_s=1e-5, in_flight=in_flight)
    assert bound_s <= piped_s <= transfer_serial_s(size, 1e9, operations=operations, operation_s=1e-5)


def test_impossible_numbers_are_refused() -> None:
    with pytest.raises(BoundError, match="rate > 0"):
        transfer_bound_s(1, 0)
    with pytest.raises(BoundError, match="not possible"):
        transfer_serial_s(1, 1, operations=-1, operation_s=0)
