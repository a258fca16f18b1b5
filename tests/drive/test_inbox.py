"""A crowd of answers: each is stamped when it comes, and read in turns, so that none holds up the stamps of others."""

from collections import deque
from collections.abc import Callable
from typing import cast

import pytest

from testbed.drive.client import READ_FOR_NS, Connection, Inbox


class Turns:
    """A loop of which only the order of calls is wanted."""

    def __init__(self) -> None:
        self.waiting: deque[Callable[[], None]] = deque()

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


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    time = [0]
    monkeypatch.setattr("testbed.drive.client.now_ns", lambda: time[0])
    return time


def make(clock: list[int]) -> tuple[Turns, Inbox, Reader]:
    turns = Turns()
    return turns, Inbox(turns, lambda exchange, connection: None), Reader(clock)  # type: ignore[arg-type]


def test_a_crowd_is_read_in_stretches_between_which_the_sockets_have_their_turn(clock: list[int]) -> None:
    turns, inbox, reader = make(clock)
    for number in range(12):
        inbox.put(cast(Connection, reader), bytes([number]), number)
    seen = []
    while turns.waiting:
        turns.turn()
        seen.append(len(reader.taken))
    # five fit into each stretch
    assert seen == [5, 10, 12]
    assert reader.taken == [(bytes([number]), number) for number in range(12)]


def test_what_comes_meanwhile_is_read_in_its_order(clock: list[int]) -> None:
    turns, inbox, reader = make(clock)
    for number in range(7):
        inbox.put(cast(Connection, reader), None, number)
    turns.turn()
    inbox.put(cast(Connection, reader), b"late", 99)
    turns.turn()
    assert [at_ns for _, at_ns in reader.taken] == [0, 1, 2, 3, 4, 5, 6, 99]
    assert not turns.waiting


def test_all_can_be_read_at_once_before_a_verdict(clock: list[int]) -> None:
    turns, inbox, reader = make(clock)
    for number in range(12):
        inbox.put(cast(Connection, reader), b"", number)
    inbox.read_all()
    assert len(reader.taken) == 12
    turns.turn()
    inbox.put(cast(Connection, reader), b"", 12)
    turns.turn()
    assert len(reader.taken) == 13


def test_nothing_is_read_once_it_is_closed(clock: list[int]) -> None:
    turns, inbox, reader = make(clock)
    inbox.put(cast(Connection, reader), b"", 0)
    inbox.close()
    inbox.put(cast(Connection, reader), b"", 1)
    turns.turn()
    assert reader.taken == []
    assert not turns.waiting
