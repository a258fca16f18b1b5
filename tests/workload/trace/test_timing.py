"""Requests are due as recorded, or spread over the quanta of the clock that recorded them; a window cuts them out."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.errors import SpecError
from testbed.spec.trace import Trace
from testbed.workload.trace.records import TraceRow
from testbed.workload.trace.timing import found_quantum_ns, offsets_s, within

MS = 1_000_000


def spec(**changes: Any) -> Trace:
    return Trace.model_validate({"file": "t", "format": "mooncake", "timeout": "60s"} | changes)


def rows_at(*times_ms: int) -> list[TraceRow]:
    return [TraceRow(number, at * MS, 1, 1) for number, at in enumerate(times_ms, start=1)]


def offsets(rows: list[TraceRow], **changes: Any) -> list[float]:
    return offsets_s(rows, spec(**changes), where="t", name="w", seed=7)


def test_verbatim_times_count_from_the_first_request() -> None:
    assert offsets(rows_at(5000, 5000, 5250, 9000)) == [0.0, 0.0, 0.25, 4.0]
    assert offsets([]) == []


def test_a_group_is_spread_over_the_quantum_that_follows_it_in_the_order_of_the_file() -> None:
    # groups at 0, 3 and 6 s, as the real trace's clock ticks
    spread = offsets(rows_at(*[0] * 40, *[3000] * 40, *[6000] * 40), timing="dequantised")
    assert spread == sorted(spread)
    assert all(0 <= at_s < 3 for at_s in spread[:40])
    assert all(3 <= at_s < 6 for at_s in spread[40:80])
    assert all(6 <= at_s < 9 for at_s in spread[80:])
    # 40 even draws: their mean lies within 4 x 3 s / sqrt(12 x 40) = 0.55 s of the middle
    assert sum(spread[:40]) / 40 == pytest.approx(1.5, abs=0.55)
    assert len(set(spread)) == 120


def test_spreading_is_the_seeds_and_leaves_other_groups_alone() -> None:
    rows = rows_at(*[0] * 5, *[3000] * 5, 6000)
    assert offsets(rows, timing="dequantised") == offsets(rows, timing="dequantised")
    more = offsets(rows_at(*[0] * 9, *[3000] * 5, 6000), timing="dequantised")
    assert more[9:] == offsets(rows, timing="dequantised")[5:]
    other = offsets_s(rows, spec(timing="dequantised"), where="t", name="w", seed=8)
    assert other != offsets(rows, timing="dequantised")


def test_the_quantum_is_found_through_jitter_and_empty_quanta() -> None:
    # gaps 2999, 3001, 5999 ms: one empty quantum, and every value a little beside
    assert found_quantum_ns(rows_at(0, 2999, 6000, 11999), where="t") == 3001 * MS


def test_time_stamps_without_quanta_are_not_dequantised() -> None:
    with pytest.raises(SpecError, match=r"no quanta: gaps from 0\.7 to 2\.1 s"):
        offsets(rows_at(0, 1000, 3100, 3800), timing="dequantised")
    with pytest.raises(SpecError, match="one time stamp"):
        offsets(rows_at(5, 5), timing="dequantised")


def test_a_given_quantum_is_taken_and_reaches_no_further_than_the_next_group() -> None:
    spread = offsets(rows_at(*[0] * 50, *[1000] * 50), timing="dequantised", quantum="2s")
    assert max(spread[:50]) < 1.0 <= min(spread[50:])
    assert 2.0 < max(spread[50:]) < 3.0


def test_a_window_has_its_begin_and_not_its_end_and_a_limit_counts_from_there() -> None:
    at_s = [0.0, 1.0, 1.0, 2.0, 5.0]
    assert within(at_s, spec()) == slice(0, 5)
    assert within(at_s, spec(window={"from": "1s", "to": "2s"})) == slice(1, 3)
    assert within(at_s, spec(window={"from": "1s"}, limit=2)) == slice(1, 3)
    assert within(at_s, spec(window={"from": "9s"})) == slice(5, 5)


@settings(max_examples=30, deadline=None)
@given(counts=st.lists(st.integers(1, 6), min_size=2, max_size=10), seed=st.integers(0, 2**32))
def test_no_request_leaves_its_quantum_or_its_order(counts: list[int], seed: int) -> None:
    rows = rows_at(*(3000 * tick for tick, count in enumerate(counts) for _ in range(count)))
    spread = offsets_s(rows, spec(timing="dequantised"), where="t", name="w", seed=seed)
    assert spread == sorted(spread)
    assert [int(at_s // 3) * 3000 * MS for at_s in spread] == [row.at_ns for row in rows]
