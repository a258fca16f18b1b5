"""Whether this machine lets a process open the connections that a schedule needs; asked before anything is sent."""

import os
import resource
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from testbed.drive.due import MOMENT_NS
from testbed.errors import DeployError
from testbed.workload.request import PlannedRequest

SPARE = 16
"""Handles that the run itself takes beside its connections: journal, share, loop."""


def certain_open(requests: Sequence[PlannedRequest], max_concurrency: int | None) -> int:
    """Connections needed at once however fast the server is: the most requests that are due within one moment."""
    moments = Counter(round(one.scheduled_at_s * 1e9) // MOMENT_NS for one in requests if one.after is None)
    return _capped(max(moments.values(), default=0), max_concurrency)


def worst_open(requests: Sequence[PlannedRequest], max_concurrency: int | None) -> int:
    """Connections needed at once when the server answers nothing before the deadlines."""
    begins = sorted(one.scheduled_at_s for one in requests)
    ends = sorted(one.scheduled_at_s + one.timeout_s for one in requests)
    most = ended = 0
    for begun, at_s in enumerate(begins, start=1):
        while ends[ended] <= at_s:
            ended += 1
        most = max(most, begun - ended)
    return _capped(most, max_concurrency)


def _capped(count: int, max_concurrency: int | None) -> int:
    return count if max_concurrency is None else min(count, max_concurrency)


def free_handles() -> int:
    """How many more files and connections this process may open, once it has asked for all that it may have."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard - _open_now() - SPARE


def _open_now() -> int:
    listed = Path("/dev/fd")
    return len(os.listdir(listed)) if listed.is_dir() else 0


def check_handles(requests: Sequence[PlannedRequest], max_concurrency: int | None, free: int) -> str | None:
    """A warning if the requests may need more connections than are `free`, else None.

    Raises: DeployError if they need more for certain.
    """
    certain = certain_open(requests, max_concurrency)
    if certain > free:
        raise DeployError(
            f"{certain} requests are due at one moment, and this process may open {max(free, 0)} more connections",
            hint="raise the limit (ulimit -n), use more workers, or limit the concurrency",
        )
    worst = worst_open(requests, max_concurrency)
    if worst <= free:
        return None
    return (
        f"up to {worst} requests are in flight at once if the server answers none in time, and this process may open "
        f"{free} more connections; what is due beyond that will be not_sent/client_limit"
    )
