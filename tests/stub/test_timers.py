"""Callbacks come in the order of their times, never early, and an earlier one does not wait for a later one."""

import asyncio

import pytest

from testbed.clock import now_ns
from testbed.stub.timers import Timers

MS = 1_000_000


async def times_of(*after_ms: int) -> list[tuple[int, int]]:
    """Set callbacks so many ms ahead, all at once; the due time and the true time of each, as they came."""
    timers, called, done = Timers(asyncio.get_running_loop()), [], asyncio.Event()
    began_ns = now_ns()

    def call(due_ns: int) -> None:
        called.append((due_ns, now_ns()))
        if len(called) == len(after_ms):
            done.set()

    for after in after_ms:
        due_ns = began_ns + after * MS
        timers.at(due_ns, lambda due_ns=due_ns: call(due_ns))  # type: ignore[misc]
    await asyncio.wait_for(done.wait(), 5)
    return called


async def test_none_is_early_and_all_are_in_order() -> None:
    called = await times_of(20, 22, 21, 0, 20)
    assert [due for due, _ in called] == sorted(due for due, _ in called)
    assert all(at >= due for due, at in called)


async def test_an_earlier_time_does_not_wait_for_one_that_was_set_before() -> None:
    (first_due, first_at), (second_due, _) = await times_of(400, 5)
    assert first_due < second_due
    assert first_at < second_due


async def test_a_callback_may_set_the_next_one() -> None:
    timers, done = Timers(asyncio.get_running_loop()), asyncio.Event()
    began_ns = now_ns()
    timers.at(began_ns + MS, lambda: timers.at(began_ns + 3 * MS, done.set))
    await asyncio.wait_for(done.wait(), 5)
    assert now_ns() >= began_ns + 3 * MS


def test_a_system_without_such_a_timer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    class NoTimers:
        def timerfd_create(self, *_: int) -> int:
            return -1

    monkeypatch.setattr("ctypes.CDLL", lambda *_, **__: NoTimers())
    loop = asyncio.new_event_loop()
    with pytest.raises(OSError, match="no timer to be had"):
        Timers(loop)
    loop.close()
