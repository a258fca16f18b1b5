"""A crowd of answers: each is stamped when it comes, and read in turns, so that none holds up the stamps of others."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import cast

import pytest

from testbed.drive.client import READ_FOR_NS, Connection, Inbox


class Turns:
    """A loop of which only the order of calls is wanted, and the time at which it looked at the sockets."""

    def __init__(self) -> None:
        self.waiting: deque[Callable[[], None]] = deque()
        self.now_s = 1.0

    def time(self) -> float:
        return self.now_s

    def call_soon(self, call: Callable[[], None]) -> None:
        self.waiting.append(call)

    def turn(self) -> None:
        for _ in range(len(self.waiting)):
            self.waiting.popleft()()


class Reader:
    """Takes a fifth of what may be read at a stretch for each piece."""

    def __init__(self, clock: list[int]) -> None:
        self._clock = clock
        self.taken: list[tuple[bytes | None, int]] = []

    def read(self, data: bytes | None, at_ns: int) -> None:
        self._clock[0] += READ_FOR_NS // 5
        self.taken.append((data, at_ns))


class Crowd:
    """An inbox, and bytes that come one right after the other."""

    def __init__(self, clock: list[int]) -> None:
        self.clock = clock
        self.turns = Turns()
        self.bugs: list[BaseException] = []
        loop = cast(asyncio.AbstractEventLoop, self.turns)
        self.inbox = Inbox(loop, lambda exchange, connection: None, self.bugs.append)
        self.reader = Reader(clock)

    def come(self, count: int) -> None:
        for _ in range(count):
            self.inbox.put(cast(Connection, self.reader), b"", self.clock[0])


@pytest.fixture
def crowd(monkeypatch: pytest.MonkeyPatch) -> Crowd:
    time = [1_000_000_000]
    monkeypatch.setattr("testbed.drive.client.now_ns", lambda: time[0])
    return Crowd(time)


def test_of_a_crowd_no_more_is_read_in_passing_than_a_stretch_allows_and_all_have_their_stamps(crowd: Crowd) -> None:
    began_ns = crowd.clock[0]
    crowd.come(12)
    # five fit into the stretch; the others came when it was over
    assert len(crowd.reader.taken) == 5
    seen = []
    while crowd.turns.waiting:
        crowd.turns.turn()
        seen.append(len(crowd.reader.taken))
    assert seen == [10, 12]
    stamps_ns = [at_ns - began_ns for _, at_ns in crowd.reader.taken]
    assert stamps_ns == [number * READ_FOR_NS // 5 for number in range(5)] + [READ_FOR_NS] * 7


def test_what_the_next_look_at_the_sockets_finds_is_read_at_once_again(crowd: Crowd) -> None:
    for number in range(1, 20):
        crowd.come(1)
        assert len(crowd.reader.taken) == number
        crowd.turns.now_s += 0.001


def test_it_does_not_matter_how_long_the_loop_takes_between_two_of_one_look(crowd: Crowd) -> None:
    for _ in range(4):
        crowd.come(1)
        crowd.clock[0] += READ_FOR_NS // 2
    # at 0 and, with reading, at 0.7 of a stretch; then it is over
    assert len(crowd.reader.taken) == 2


def test_what_comes_while_others_wait_is_read_in_its_order(crowd: Crowd) -> None:
    crowd.come(7)
    crowd.inbox.put(cast(Connection, crowd.reader), b"last", crowd.clock[0] + READ_FOR_NS)
    crowd.turns.turn()
    assert [data for data, _ in crowd.reader.taken] == [b""] * 7 + [b"last"]
    assert not crowd.turns.waiting


def test_all_can_be_read_at_once_before_a_verdict(crowd: Crowd) -> None:
    crowd.come(12)
    crowd.inbox.read_all()
    assert len(crowd.reader.taken) == 12
    crowd.turns.turn()
    crowd.turns.now_s += 0.001
    crowd.come(1)
    assert len(crowd.reader.taken) == 13


def test_trouble_of_the_system_in_our_own_code_is_not_taken_for_trouble_of_the_socket(
    crowd: Crowd, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise OSError("the disk")

    monkeypatch.setattr(crowd.reader, "read", broken)
    crowd.come(1)
    assert [str(bug) for bug in crowd.bugs] == ["the disk"]


def test_nothing_is_read_once_it_is_closed(crowd: Crowd) -> None:
    crowd.come(6)
    crowd.inbox.close()
    crowd.come(1)
    crowd.turns.turn()
    assert len(crowd.reader.taken) == 5
    assert not crowd.turns.waiting
