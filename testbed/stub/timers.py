"""Call back at exact times: the loop's own timers count whole milliseconds, which would send chunks in bunches.

One timer of the system (timerfd) is set to the earliest time that is due, and the loop is told when it has run out.
"""

import asyncio
import ctypes
import heapq
import os
from collections.abc import Callable
from typing import ClassVar

from testbed.clock import now_ns

_CLOCK_MONOTONIC = 1
_ABSOLUTE = 1
_S_IN_NS = 1_000_000_000


class _Moment(ctypes.Structure):
    _fields_: ClassVar = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]


class _Setting(ctypes.Structure):
    _fields_: ClassVar = [("interval", _Moment), ("value", _Moment)]


class Timers:
    """Callbacks by their time on the monotonic clock, run in order by the loop, never early."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0
        self._armed_ns: int | None = None
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._setting = _Setting()
        self._fd: int = self._libc.timerfd_create(_CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "no timer to be had")
        loop.add_reader(self._fd, self._run)

    def at(self, due_ns: int, callback: Callable[[], None]) -> None:
        """Have `callback` called at `due_ns` on the monotonic clock."""
        self._count += 1
        heapq.heappush(self._due, (due_ns, self._count, callback))
        if self._armed_ns is None or due_ns < self._armed_ns:
            self._arm(due_ns)

    def _arm(self, at_ns: int) -> None:
        self._armed_ns = at_ns
        # All zeros would stop the timer; a time that has passed makes it run out at once.
        self._setting.value.seconds, self._setting.value.nanoseconds = divmod(max(at_ns, 1), _S_IN_NS)
        if self._libc.timerfd_settime(self._fd, _ABSOLUTE, ctypes.byref(self._setting), None):
            raise OSError(ctypes.get_errno(), "the timer can't be set")

    def _run(self) -> None:
        try:
            os.read(self._fd, 8)
        except BlockingIOError:
            return  # it was set anew since the loop saw it
        due = self._due
        now = now_ns()
        while due and due[0][0] <= now:
            heapq.heappop(due)[2]()
        self._armed_ns = None
        if due:
            self._arm(due[0][0])
