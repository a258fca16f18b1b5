"""The only place that reads the monotonic clock or sleeps."""

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Protocol

from testbed.errors import RunError


class Clock(Protocol):
    """What a room needs of time; tests hand in one that they move by hand."""

    def now_ns(self) -> int:
        """Nanoseconds of this host's monotonic clock."""

    def sleep_s(self, seconds: float) -> None:
        """Let `seconds` pass."""


class MonotonicClock:
    """The real clock of this host."""

    def now_ns(self) -> int:
        """Nanoseconds of this host's monotonic clock."""
        return time.monotonic_ns()

    def sleep_s(self, seconds: float) -> None:
        """Block this thread for `seconds`."""
        time.sleep(seconds)


def now_ns() -> int:
    """Nanoseconds of this host's monotonic clock."""
    return time.monotonic_ns()


def now_s() -> float:
    """Seconds of this host's monotonic clock."""
    return time.monotonic()


def cpu_s() -> float:
    """CPU seconds that this process has used, all its threads together."""
    return time.process_time()


def wall_time_text() -> str:
    """The wall clock in UTC, for humans only; never used for a duration."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def run_name_time() -> str:
    """The wall clock as it stands in the name of a run."""
    return time.strftime("%Y%m%d-%H%M%S", time.gmtime())


def sleep_s(seconds: float) -> None:
    """Block this thread for `seconds`."""
    time.sleep(seconds)


async def sleep_async_s(seconds: float) -> None:
    """Let other tasks run for `seconds`."""
    await asyncio.sleep(seconds)


def polls(limit_s: float, every_s: float) -> Iterator[float]:
    """Yield the seconds waited so far, about every `every_s`, until `limit_s` has passed."""
    began_s = time.monotonic()
    while (waited_s := time.monotonic() - began_s) < limit_s:
        yield waited_s
        time.sleep(every_s)


def wait_for(condition: Callable[[], bool], *, limit_s: float, what: str, every_s: float = 0.05) -> float:
    """Wait until `condition` holds; return the seconds it took.

    Raises: RunError, naming `what`, when `limit_s` has passed first.
    """
    for waited_s in polls(limit_s, every_s):
        if condition():
            return waited_s
    raise RunError(f"waited {limit_s:g} s for {what}, in vain")
