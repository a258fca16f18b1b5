"""What is due, when: by the plan, or after the end of another request. All moved by hand, no clock."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.drive.due import AHEAD_ITEMS, Due
from testbed.drive.share import Item, written_share
from testbed.workload.request import PlannedRequest
from tests.drive.conftest import name_of, request

ZERO = 1_000_000_000
MS = 1_000_000


@contextmanager
def due(requests: Sequence[PlannedRequest]) -> Iterator[Due]:
    ordered = sorted(requests, key=lambda one: one.scheduled_at_s)
    with written_share(ordered, name_of, lambda one: b"x") as share:
        yield Due(share, ZERO)


def at(ms: float) -> int:
    return ZERO + round(ms * MS)


def popped(schedule: Due, ms: float) -> list[int]:
    found = []
    while (ready := schedule.pop(at(ms))) is not None:
        found.append(ready.item.index)
    return found


def test_nothing_is_due_before_its_time_and_all_at_it() -> None:
    with due([request(0, 0.010), request(1, 0.020)]) as schedule:
        assert schedule.next_at_ns() == at(10)
        assert popped(schedule, 9.999) == []
        assert popped(schedule, 10) == [0]
        assert schedule.next_at_ns() == at(20)
        assert popped(schedule, 25) == [1]
        assert schedule.next_at_ns() is None


def test_of_several_the_one_due_longest_comes_first_whether_read_ahead_or_not() -> None:
    with due([request(index, 0.001 * index) for index in range(5)]) as schedule:
        schedule.read_ahead(at(0))
        assert popped(schedule, 10) == [0, 1, 2, 3, 4]


def test_a_request_that_is_not_read_yet_goes_before_a_follower_that_is_due_later() -> None:
    with due([request(0), request(1, after=0, think_s=0.05), request(2, 0.02)]) as schedule:
        first = schedule.pop(at(0))
        assert first is not None
        schedule.ended(first.item, at(0))
        assert popped(schedule, 60) == [2, 1]


def test_taking_one_reads_no_more_than_it_needs() -> None:
    with due([request(index) for index in range(100)]) as schedule:
        assert schedule.pop(at(0)) is not None
        assert schedule.most_at_once(at(0)) <= 1


def test_a_follower_is_due_when_the_user_has_thought_and_not_before_its_own_time() -> None:
    requests = [request(0), request(1, 0.001, after=0, think_s=0.005), request(2, 0.5, after=0, think_s=0.005)]
    with due(requests) as schedule:
        first = schedule.pop(at(0))
        assert first is not None
        assert popped(schedule, 100) == []
        assert schedule.next_at_ns() == at(500)
        schedule.ended(first.item, at(100))
        # 1: later of 1 and 100 + 5 ms; 2: later of 500 and 105 ms
        assert schedule.next_at_ns() == at(105)
        second = schedule.pop(at(105))
        assert second is not None
        assert (second.item.index, second.due_at_ns) == (1, at(105))
        third = schedule.pop(at(500))
        assert third is not None
        assert (third.item.index, third.due_at_ns) == (2, at(500))


def test_no_more_is_read_ahead_than_the_limit() -> None:
    with due([request(index) for index in range(AHEAD_ITEMS + 500)]) as schedule:
        for _ in range(100):
            schedule.read_ahead(at(0))
        assert schedule.most_at_once(at(0)) == AHEAD_ITEMS
        assert len(popped(schedule, 0)) == AHEAD_ITEMS + 500


def test_what_is_far_off_is_not_read() -> None:
    with due([request(0, 0.4), request(1, 0.6)]) as schedule:
        schedule.read_ahead(at(0))
        assert schedule.most_at_once(at(10_000)) == 1


def test_the_crowd_of_the_next_moments_is_known() -> None:
    # 3 within the 5 ms from 100 on, 2 within those from 200 on
    requests = [request(index, ms / 1000) for index, ms in enumerate([100, 102, 104, 200, 201])]
    with due(requests) as schedule:
        schedule.read_ahead(at(0))
        assert [schedule.most_at_once(at(ms)) for ms in (50, 150, 250)] == [0, 3, 3]
        assert popped(schedule, 150) == [0, 1, 2]
        assert schedule.most_at_once(at(250)) == 2


def test_the_rest_is_all_that_has_not_gone_out() -> None:
    requests = [request(0), request(1, 0.1, after=0), request(2, 0.2), request(3, 5.0), request(4, 9.0, after=3)]
    with due(requests) as schedule:
        schedule.read_ahead(at(0))
        assert popped(schedule, 0) == [0]
        assert sorted(item.index for item in schedule.rest()) == [1, 2, 3, 4]
        assert list(schedule.rest()) == []
        assert schedule.next_at_ns() is None


plans = st.lists(
    st.tuples(st.integers(0, 40), st.one_of(st.none(), st.integers(0, 20)), st.integers(0, 30)), max_size=20
).map(
    lambda rows: [
        request(index, ms / 1000, after=None if after is None or after >= index else after, think_s=think / 1000)
        for index, (ms, after, think) in enumerate(rows)
    ]
)


@settings(max_examples=60)
@given(requests=plans, service_ms=st.lists(st.integers(0, 50), min_size=20, max_size=20), ahead=st.booleans())
def test_each_request_goes_out_once_at_its_own_time_or_after_the_end_it_waits_for(
    requests: list[PlannedRequest], service_ms: list[int], ahead: bool
) -> None:
    went: dict[int, int] = {}
    ends: dict[int, int] = {}
    in_flight: dict[int, Item] = {}
    with due(requests) as schedule:
        for ms in range(3000):
            if ahead:
                schedule.read_ahead(at(ms))
            for index in [one for one, end in ends.items() if one in in_flight and end == at(ms)]:
                schedule.ended(in_flight.pop(index), at(ms))
            while (ready := schedule.pop(at(ms))) is not None:
                index = ready.item.index
                assert index not in went
                went[index], in_flight[index] = ready.due_at_ns, ready.item
                ends[index] = at(ms + 1 + service_ms[index])
            if len(went) == len(requests):
                break
    for one in requests:
        own = at(one.scheduled_at_s * 1000)
        released = own if one.after is None else ends[one.after] + round(one.think_s * 1e9)
        assert went[one.index] == max(own, released)


def test_an_unknown_number_of_bytes_is_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("testbed.drive.due.AHEAD_BYTES", 10)
    with written_share([request(index) for index in range(50)], name_of, lambda one: b"1234") as share:
        schedule = Due(share, ZERO)
        schedule.read_ahead(at(0))
        # 3 bodies of 4 bytes are the first that reach 10
        assert schedule.most_at_once(at(0)) == 3
        for _ in range(3):
            assert schedule.pop(at(0)) is not None
        schedule.read_ahead(at(0))
        assert schedule.most_at_once(at(0)) == 3
        assert len(popped(schedule, 0)) == 47
