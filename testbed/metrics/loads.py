"""Each load of KV from a tier: its bytes, its times, and how far it stayed above its bounds."""

from dataclasses import dataclass

from testbed.bounds.transfer import transfer_bound_s
from testbed.journal.events import KvLoadEnded, KvLookup
from testbed.journal.manifest import PathRate
from testbed.journal.run import Run
from testbed.metrics.requests import NS
from testbed.missing import Missing


@dataclass(frozen=True)
class Load:
    """One load. `load_s` runs from the attempt's first lookup to the end of the load, holds included.

    `transfer_s` is the time in which bytes moved; Missing where the connector does not show it.
    """

    request_id: str
    arm: str
    attempt: int
    path: str
    ok: bool
    reason: str
    load_bytes: int
    ended_at_ns: int
    load_s: float | Missing
    transfer_s: float | Missing
    rate: PathRate | None

    @property
    def calibrated_bound_s(self) -> float | Missing:
        """Least time by the best rate seen on this machine."""
        return self._bound_s(None if self.rate is None else self.rate.calibrated_bytes_per_s, "calibrated")

    @property
    def nominal_bound_s(self) -> float | Missing:
        """Least time by the data sheet of the path."""
        return self._bound_s(None if self.rate is None else self.rate.nominal_bytes_per_s, "nominal")

    def _bound_s(self, bytes_per_s: float | None, kind: str) -> float | Missing:
        if bytes_per_s is None:
            return Missing(f"path {self.path} has no {kind} rate")
        return transfer_bound_s(self.load_bytes, bytes_per_s)

    @property
    def over_calibrated(self) -> float | Missing:
        """Transfer time ÷ calibrated bound; below 1 it was faster than this machine was ever seen to be."""
        return _ratio(self.transfer_s, self.calibrated_bound_s)

    @property
    def over_nominal(self) -> float | Missing:
        """Transfer time ÷ nominal bound; below 1 the measurement or the profile is wrong."""
        return _ratio(self.transfer_s, self.nominal_bound_s)


def _ratio(measured: float | Missing, bound: float | Missing) -> float | Missing:
    if isinstance(measured, Missing):
        return measured
    if isinstance(bound, Missing):
        return bound
    return measured / bound if bound > 0 else Missing("no bytes were moved")


def loads_of(run: Run) -> tuple[Load, ...]:
    """All loads of the run that ended, in order of time."""
    rates = {rate.path: rate for rate in run.manifest.paths}
    asked: dict[tuple[str, int], int] = {}
    loads: list[Load] = []
    for event in run.journal.events:
        if isinstance(event, KvLookup):
            asked.setdefault((event.request_id, event.attempt), event.first_asked_at_ns)
        elif isinstance(event, KvLoadEnded):
            loads.append(_load(event, asked.get((event.request_id, event.attempt)), rates.get(event.path)))
    return tuple(loads)


def _load(event: KvLoadEnded, asked_at_ns: int | None, rate: PathRate | None) -> Load:
    return Load(
        request_id=event.request_id, arm=event.arm, attempt=event.attempt, path=event.path, ok=event.ok,
        reason=event.reason, load_bytes=event.load_bytes, ended_at_ns=event.at_ns, rate=rate,
        load_s=Missing("the load has no lookup") if asked_at_ns is None else (event.at_ns - asked_at_ns) / NS,
        transfer_s=Missing("the connector does not show it") if event.transfer_s is None else event.transfer_s,
    )
