"""From the tries of one path to the rate that a bound may use: the fastest one seen, with its spread."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from testbed.errors import BoundError
from testbed.journal.manifest import PathRate

MIN_TRIES = 10


@dataclass(frozen=True)
class Way:
    """One way to move bytes along a path: `moved_bytes` in each of `tries_s`."""

    label: str
    moved_bytes: int
    tries_s: tuple[float, ...]

    @property
    def best_bytes_per_s(self) -> float:
        """The rate of the fastest try."""
        return self.moved_bytes / min(self.tries_s)

    @property
    def spread_ratio(self) -> float:
        """(best - median) / best of the rates."""
        rates = [self.moved_bytes / took_s for took_s in self.tries_s]
        return (max(rates) - median(rates)) / max(rates)


def path_rate(path: str, ways: Sequence[Way]) -> PathRate:
    """The fastest way, since a bound must not be beaten by a faster one; no data sheet has a figure for it.

    Raises: BoundError if there is no way, or one was tried fewer than 10 times or took no time.
    """
    if not ways:
        raise BoundError(f"path {path} was not measured in any way")
    for way in ways:
        if len(way.tries_s) < MIN_TRIES or min(way.tries_s) <= 0:
            raise BoundError(f"path {path}, {way.label}: needs {MIN_TRIES} tries that took time")
    best = max(ways, key=lambda way: way.best_bytes_per_s)
    return PathRate(
        path=path, nominal_bytes_per_s=None, calibrated_bytes_per_s=best.best_bytes_per_s,
        spread_ratio=best.spread_ratio, tries=len(best.tries_s),
        source=f"this machine, fastest of {len(ways)} ways: {best.label}",
    )
