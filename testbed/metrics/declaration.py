"""A metric is a declaration: name, unit, meaning, the events it needs, and one small function."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from testbed.metrics.views import ArmView, RequestView
from testbed.missing import Missing

Better = Literal["lower", "higher", "neither"]
PROBE_EVENTS = frozenset({"kv_lookup", "kv_load_began", "kv_load_ended", "step_scheduled"})


@dataclass(frozen=True)
class Estimate:
    """A number of a whole arm with its n and, where it is a sample, its 95 % interval."""

    value: float
    n: int
    interval: tuple[float, float] | Missing


@dataclass(frozen=True, kw_only=True)
class Metric:
    """What every metric says of itself. `statistics` are those that a summary shows, the most telling first.

    `smallest_n` is the least number of requests with a value; below it there is none.
    """

    name: str
    unit: str
    better: Better
    needs: tuple[str, ...]
    meaning: str
    statistics: tuple[str, ...]
    smallest_n: int = 1

    @property
    def per(self) -> Literal["request", "arm"]:
        """Whether there is one value for each request, or one for an arm."""
        return "request" if isinstance(self, RequestMetric) else "arm"

    @property
    def needs_probe(self) -> bool:
        """True where an arm without a probe can't have a value."""
        return not PROBE_EVENTS.isdisjoint(self.needs)


@dataclass(frozen=True, kw_only=True)
class RequestMetric(Metric):
    """A metric with a value, or a sequence of them, for each request."""

    compute: Callable[[RequestView], float | tuple[float, ...] | Missing]


@dataclass(frozen=True, kw_only=True)
class ArmMetric(Metric):
    """A metric of all requests of one class in one arm."""

    compute: Callable[[ArmView], Estimate | Missing]
