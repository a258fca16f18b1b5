"""One wake-up at a time, to some 0.05 ms: the timers of the event loop count in whole ms and would send up to one late.

Where the system has no timer descriptors the loop's own timers do.
"""

import asyncio
import contextlib
import ctypes
import os
from collections.abc import Callable

from testbed.clock import now_ns

_MONOTONIC = 1
_ABSOLUTE = 1
_NS_PER_S = 1_000_000_000


class _Span(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]


class _Setting(ctypes.Structure):
    _fields_ = [("every", _Span), ("at", _Span)]


class Alarm:
    """Calls `ring` when the time set last has come. It may ring too early: who is called looks at the clock."""

    def __init__(self, loop: asyncio.AbstractEventLoop, ring: Callable[[], None]) -> None:
        self._loop = loop
        self._ring = ring
        self._at_ns: int | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._system = ctypes.CDLL(None)
        self._file = _timer_file(self._system)
        if self._file is not None:
            loop.add_reader(self._file, self._rung)

    def set(self, at_ns: int | None) -> None:
        """Ring at `at_ns` instead of the time set before; None for never."""
        if at_ns == self._at_ns:
            return
        self._at_ns = at_ns
        if self._file is not None:
            self._set_file(self._file, at_ns)
            return
        if self._timer is not None:
            self._timer.cancel()
        if at_ns is not None:
            self._timer = self._loop.call_later(max(0.0, (at_ns - now_ns()) / 1e9), self._rung)

    def _set_file(self, file: int, at_ns: int | None) -> None:
        """A time that has passed rings at once; 0 takes the alarm off."""
        seconds, nanoseconds = divmod(0 if at_ns is None else at_ns, _NS_PER_S)
        setting = _Setting(_Span(0, 0), _Span(seconds, nanoseconds))
        self._system.timerfd_settime(file, _ABSOLUTE, ctypes.byref(setting), None)

    def close(self) -> None:
        """Never ring again."""
        self.set(None)
        if self._file is not None:
            self._loop.remove_reader(self._file)
            os.close(self._file)
            self._file = None

    def _rung(self) -> None:
        self._at_ns = None
        if self._file is not None:
            # Nothing is there to read if it was set anew after it had rung.
            with contextlib.suppress(BlockingIOError):
                os.read(self._file, 8)
        self._ring()


def _timer_file(system: ctypes.CDLL) -> int | None:
    create = getattr(system, "timerfd_create", None)
    file = -1 if create is None else create(_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
    return None if file < 0 else file
