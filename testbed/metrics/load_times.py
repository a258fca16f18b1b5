"""Metrics of KV loads that ended well: bytes, times, and the distance from their bounds."""

from collections.abc import Callable

from testbed.metrics.declaration import RequestMetric
from testbed.metrics.loads import Load
from testbed.metrics.views import RequestView
from testbed.missing import Missing

_NEEDS = ("kv_lookup", "kv_load_ended")


def _of_loads(pick: Callable[[Load], float | Missing]) -> Callable[[RequestView], tuple[float, ...] | Missing]:
    def compute(view: RequestView) -> tuple[float, ...] | Missing:
        values = [pick(load) for load in view.loads if load.ok]
        if not values:
            return Missing("no load ended well")
        found = tuple(value for value in values if not isinstance(value, Missing))
        missing = next((value for value in values if isinstance(value, Missing)), None)
        return missing if missing is not None and not found else found
    return compute


def _metric(
    name: str, unit: str, meaning: str, statistics: tuple[str, ...], pick: Callable[[Load], float | Missing],
) -> RequestMetric:
    return RequestMetric(
        name=name, unit=unit, better="neither" if unit == "bytes" else "lower", needs=_NEEDS, statistics=statistics,
        meaning=meaning, compute=_of_loads(pick),
    )


_TIMES = ("p50", "mean", "p95")

LOAD_METRICS = (
    _metric(
        "loaded_bytes", "bytes", "bytes of whole blocks that were loaded", ("total",),
        lambda one: float(one.load_bytes),
    ),
    _metric("load_s", "s", "from the lookup to the end of a load, holds included", _TIMES, lambda one: one.load_s),
    _metric("transfer_s", "s", "time in which the bytes of a load moved", _TIMES, lambda one: one.transfer_s),
    _metric(
        "transfer_over_calibrated", "", "transfer time ÷ the least time by the best rate seen on this machine",
        ("p50",), lambda one: one.over_calibrated,
    ),
    _metric(
        "transfer_over_nominal", "", "transfer time ÷ the least time by the data sheet", ("p50",),
        lambda one: one.over_nominal,
    ),
)
