"""The schedule is split exactly, and what a share has in its files is what is sent."""

import errno
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.drive.share import Item, open_share, split, written_share
from testbed.errors import DeployError, RunError
from testbed.workload.request import PlannedRequest
from tests.drive.conftest import name_of, request


def indices(parts: Sequence[Sequence[PlannedRequest]]) -> list[list[int]]:
    return [[one.index for one in part] for part in parts]


def test_requests_are_dealt_by_their_index_in_order_of_time() -> None:
    requests = [request(4, 0.0), request(0, 0.1), request(3, 0.2), request(1, 0.3), request(2, 0.4)]
    # index modulo 2, each part in the order of time
    assert indices(split(requests, 2)) == [[4, 0, 2], [3, 1]]
    assert indices(split(requests, 1)) == [[4, 0, 3, 1, 2]]


def test_what_follows_a_request_stays_with_it() -> None:
    # 3 follows 1, 4 follows 3, 2 follows 0: the first ones are 0 and 1
    requests = [request(0), request(1), request(2, after=0), request(3, after=1), request(4, after=3)]
    assert indices(split(requests, 3)) == [[0, 2], [1, 3, 4], []]


@pytest.mark.parametrize("after", [7, 5, 6])
def test_a_request_that_follows_none_that_is_earlier_is_refused(after: int) -> None:
    with pytest.raises(RunError, match=f"request 5 follows {after}, which is no earlier request"):
        split([request(4), request(5, after=after), request(6)], 2)


chains = st.lists(st.one_of(st.none(), st.integers(0, 30)), max_size=30).map(
    lambda afters: [
        request(index, 0.1 * index, after=None if after is None or after >= index else after)
        for index, after in enumerate(afters)
    ]
)


@settings(max_examples=50)
@given(requests=chains, workers=st.integers(1, 5))
def test_whatever_the_number_of_workers_each_request_has_one(requests: list[PlannedRequest], workers: int) -> None:
    parts = indices(split(requests, workers))
    assert sorted(index for part in parts for index in part) == [one.index for one in requests]
    where = {index: number for number, part in enumerate(parts) for index in part}
    assert all(one.after is None or where[one.after] == where[one.index] for one in requests)


def test_a_share_gives_back_each_request_with_its_body() -> None:
    requests = [
        request(3, 0.25, timeout_s=1.5), request(5, 0.5, after=3, think_s=0.1, leaves_after_tokens=7),
        request(6, 1.0, after=3),
    ]
    with written_share(requests, name_of, lambda one: b"body\n" * one.index) as share:
        items = list(share.items())
        assert [share.body(item) for item in items] == [b"body\n" * 3, b"body\n" * 5, b"body\n" * 6]
        assert list(share.items()) == items
    # two requests follow 3; the bodies have 5 bytes for each line: 15, 25 and 30
    assert items == [
        Item("R.arm.0.3", 3, 250_000_000, 1_500_000_000, None, 0, 2, None, 0, 15),
        Item("R.arm.0.5", 5, 500_000_000, 20_000_000_000, 3, 100_000_000, 0, 7, 15, 25),
        Item("R.arm.0.6", 6, 1_000_000_000, 20_000_000_000, 3, 0, 0, None, 40, 30),
    ]


def test_a_body_that_is_cut_off_is_not_sent() -> None:
    with written_share([request(1)], name_of, lambda one: b"1234") as share:
        item = next(share.items())
        short = Item(item.request_id, 1, 0, 1, None, 0, 0, None, item.body_at, 5)
        with pytest.raises(RunError, match="not whole: 4 of 5 bytes"):
            share.body(short)


def test_no_room_for_the_bodies_is_said_before_anything_is_sent() -> None:
    def full(_: PlannedRequest) -> bytes:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(DeployError, match="No space left") as raised, written_share([request(0)], name_of, full):
        pass
    assert "TMPDIR" in str(raised.value.hint)


def test_the_files_of_a_share_can_be_opened_by_another() -> None:
    with written_share([request(1)], name_of, lambda one: b"1234") as share:
        items, bodies = (f"/dev/fd/{number}" for number in share.files)
        with open_share(items, bodies, 1) as other:
            assert [other.body(item) for item in other.items()] == [b"1234"]


def test_a_share_that_is_not_there_is_named() -> None:
    with pytest.raises(RunError, match=r"nowhere: a share of the schedule is not there"), open_share("nowhere", "x", 1):
        pass
