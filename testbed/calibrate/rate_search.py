"""Find the highest rate that holds: doubling, then halving the ratio between the best and the lowest that failed."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from testbed.calibrate.accuracy import Accuracy
from testbed.errors import RunError

START_RPS, LOWEST_RPS, HIGHEST_RPS = 100.0, 25.0, 12_800.0
CLOSE_ENOUGH = 1.1
"""The search ends when the rate that failed is at most this times the one that held."""
TRIES, NEEDED = 3, 2
"""A rate holds if it held in so many of so many tries, for a machine is now and then disturbed by others."""


@dataclass(frozen=True)
class Held:
    """A drive that kept the limits. `lags_s` are the p50, p99 and max of sent minus scheduled."""

    rate_rps: float
    accuracy: Accuracy
    lags_s: tuple[float, float, float]
    client_cpu_ratio: float


@dataclass(frozen=True)
class Failed:
    """A drive that did not, and why."""

    rate_rps: float
    reason: str


Trial = Held | Failed
Try = Callable[[float], Trial]


@dataclass(frozen=True)
class Found:
    """The highest rate that held, and what ended the search there."""

    best: Held
    ended_by: str


def highest_rate(try_rate: Try, time_is_up: Callable[[], bool]) -> Found:
    """Search from START_RPS between LOWEST_RPS and HIGHEST_RPS.

    Raises: RunError if no rate holds, or none held before the time was up.
    """
    best: Held | None = None
    failed: Failed | None = None
    rate_rps: float | None = START_RPS
    while rate_rps is not None:
        if time_is_up():
            return _found(best, "the time for the search was up")
        trial = _settled(try_rate, rate_rps)
        if isinstance(trial, Held):
            best = trial
        else:
            failed = trial
        rate_rps = _next_rps(best, failed)
    return _found(best, f"the highest rate that is tried is {HIGHEST_RPS:g}/s" if failed is None else _why(failed))


def _settled(try_rate: Try, rate_rps: float) -> Trial:
    """The verdict of several tries; of those that held, the one with the larger error."""
    held: list[Held] = []
    lost: list[Failed] = []
    while len(held) < NEEDED and len(lost) <= TRIES - NEEDED:
        trial = try_rate(rate_rps)
        if isinstance(trial, Held):
            held.append(trial)
        else:
            lost.append(trial)
    if len(held) < NEEDED:
        return lost[-1]
    return max(held, key=lambda one: one.accuracy.error_p99_s)


def _next_rps(best: Held | None, failed: Failed | None) -> float | None:
    """The rate to try next; None when the search is over."""
    if failed is None:
        assert best is not None
        return None if best.rate_rps >= HIGHEST_RPS else best.rate_rps * 2
    if best is None:
        return None if failed.rate_rps <= LOWEST_RPS else failed.rate_rps / 2
    if failed.rate_rps <= best.rate_rps * CLOSE_ENOUGH:
        return None
    return float(round(math.sqrt(best.rate_rps * failed.rate_rps)))


def _why(failed: Failed) -> str:
    return f"at {failed.rate_rps:g}/s {failed.reason}"


def _found(best: Held | None, ended_by: str) -> Found:
    if best is None:
        raise RunError(
            f"the client's error was at no rate below the limit: {ended_by}",
            hint="see that nothing else uses this machine, and try again",
        )
    return Found(best, ended_by)
