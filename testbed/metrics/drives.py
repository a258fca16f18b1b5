"""One drive as the client did it: when its requests were due, when they went out, and what the client says of itself.

A drive is one arm in one repetition. The rates, the shape of the arrivals and the lags come from the stamps of each
request; CPU time and stalls are the client's own word, and earlier versions of it did not give it.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from testbed.journal.events import DriveEnded
from testbed.journal.run import Run
from testbed.metrics.requests import NS, RequestRow
from testbed.missing import Missing

SILENT = Missing("the client said nothing of itself")
CLOSED = Missing("a closed loop: the answers set the rate")
TOO_FEW = Missing("fewer than two moments at which requests were due")


@dataclass(frozen=True)
class Drive:
    """The measured requests of one arm and repetition, or one class of them, and the client that sent them."""

    arm: str
    repetition: int
    rows: tuple[RequestRow, ...]
    client: DriveEnded | None

    @property
    def name(self) -> str:
        """Which one it is, for evidence."""
        return f"arm {self.arm}, repetition {self.repetition}"

    @property
    def closed_loop(self) -> bool:
        """True where the client waited for answers before it sent more."""
        return self.client is not None and self.client.max_concurrency is not None

    @cached_property
    def due_ns(self) -> tuple[int, ...]:
        """The moments at which its requests were due, in order."""
        return tuple(sorted(row.due_at_ns for row in self.rows if row.due_at_ns is not None))

    @cached_property
    def sent_ns(self) -> tuple[int, ...]:
        """The moments at which first bytes went out, in order."""
        return tuple(sorted(row.sent_at_ns for row in self.rows if row.sent_at_ns is not None))

    @cached_property
    def lags_s(self) -> tuple[float, ...]:
        """How late each request that was sent was, in order of size."""
        known = ((row.due_at_ns, row.sent_at_ns) for row in self.rows)
        return tuple(sorted((sent - due) / NS for due, sent in known if due is not None and sent is not None))


def drives_of(run: Run, rows: Iterable[RequestRow]) -> tuple[Drive, ...]:
    """The drives of a run by arm, in the order of the manifest, and repetition; only measured requests count."""
    clients = {(event.arm, event.repetition): event for event in run.journal.select(DriveEnded)}
    found: dict[tuple[str, int], list[RequestRow]] = {}
    for row in rows:
        if row.measured:
            found.setdefault((row.arm, row.repetition), []).append(row)
    places = {arm.name: place for place, arm in enumerate(run.manifest.arms)}
    keys = sorted((key for key in found if key[0] in places), key=lambda key: (places[key[0]], key[1]))
    return tuple(Drive(*key, tuple(found[key]), clients.get(key)) for key in keys)


def offered_rps(drives: Sequence[Drive]) -> float | Missing:
    """What the schedules asked for: (requests - 1) ÷ time from the first due to the last, over all `drives`."""
    if any(drive.closed_loop for drive in drives):
        return CLOSED
    spans_s = [_span_s(drive) for drive in drives]
    if not spans_s or min(spans_s) <= 0:
        return TOO_FEW
    return sum(len(drive.due_ns) - 1 for drive in drives) / math.fsum(spans_s)


def sent_rps(drives: Sequence[Drive], grace_s: float = 0.0) -> float | Missing:
    """What the client made of it: (sent - 1) ÷ time from the first due to the last sent, or due if that is later.

    Lags up to `grace_s` do not count: a schedule of a second whose last send is 20 ms late has reached its rate.
    """
    spans_s = [_sending_s(drive, grace_s) for drive in drives]
    if not spans_s or min(spans_s) <= 0:
        return TOO_FEW
    return sum(max(0, len(drive.sent_ns) - 1) for drive in drives) / math.fsum(spans_s)


def _span_s(drive: Drive) -> float:
    return (drive.due_ns[-1] - drive.due_ns[0]) / NS if drive.due_ns else 0.0


def _sending_s(drive: Drive, grace_s: float) -> float:
    last_sent_s = (drive.sent_ns[-1] - drive.due_ns[0]) / NS if drive.sent_ns else 0.0
    return max(_span_s(drive), last_sent_s - grace_s)


def reached_ratio(drive: Drive, grace_s: float) -> float | Missing:
    """Sent rate ÷ offered rate; 1 where the client kept up with the schedule."""
    offered, sent = offered_rps([drive]), sent_rps([drive], grace_s)
    if isinstance(offered, Missing):
        return offered
    return sent if isinstance(sent, Missing) else sent / offered


def busiest_rps(drive: Drive) -> float | Missing:
    """The most requests that were due within any one second."""
    if not drive.due_ns:
        return Missing("no request was due")
    due = np.asarray(drive.due_ns)
    within = np.searchsorted(due, due + round(NS), side="left") - np.arange(len(due))
    return float(within.max())


def arrival_distance(drive: Drive, grace_s: float = 0.0) -> float | Missing:
    """How far the sends bent the schedule: Kolmogorov and Smirnov's distance of sent times from due ones, from 0 to 1.

    It is the largest share of the schedule by which the sends were behind, or ahead since others were never sent. One
    that is no more than `grace_s` late counts as made when it was due.
    """
    if not drive.due_ns or not drive.sent_ns:
        return Missing("no request was sent")
    due, sent = np.asarray(drive.due_ns), np.asarray(drive.sent_ns)
    by_then = np.searchsorted(sent, due + round(grace_s * NS), side="right") / len(sent)
    behind = float((_shares(due) - by_then).max())
    ahead = float((_shares(sent) - np.searchsorted(due, sent, side="right") / len(due)).max())
    return max(behind, ahead, 0.0)


def _shares(ordered: NDArray[np.int64]) -> NDArray[np.float64]:
    """The share of all that came up to and at each of them."""
    return np.searchsorted(ordered, ordered, side="right") / len(ordered)


def lag_max_s(drive: Drive) -> float | Missing:
    """The longest time by which a send was late."""
    return drive.lags_s[-1] if drive.lags_s else Missing("nothing was sent")


def cpu_ratio(drive: Drive) -> float | Missing:
    """CPU time of the client ÷ time of the drive ÷ its processes; 1 is a client that never waits."""
    return _per_process_s(drive, None if drive.client is None else drive.client.client_cpu_s)


def stalls_per_s(drive: Drive) -> float | Missing:
    """How often in a second the loop of one client process was held up beyond its limit."""
    return _per_process_s(drive, None if drive.client is None else drive.client.loop_stall_count)


def _per_process_s(drive: Drive, total: float | None) -> float | Missing:
    client = drive.client
    if client is None or total is None:
        return SILENT
    wall_s = (client.ended_at_ns - client.zero_at_ns) / NS
    return total / wall_s / client.workers if wall_s > 0 else Missing("the drive took no time")


def stall_max_s(drive: Drive) -> float | Missing:
    """The longest time by which the client's loop was held up."""
    return SILENT if drive.client is None else drive.client.loop_stall_max_s
