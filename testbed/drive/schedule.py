"""Drive a schedule in an open loop: absolute times from one zero, in this process or shared by several.

Everything that takes time is done before the zero: bodies are encoded, all requests are in the journal.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TypedDict, Unpack

from testbed.clock import now_ns
from testbed.drive.body import body_of, path_of
from testbed.drive.client import look_up
from testbed.drive.crew import Crew
from testbed.drive.endpoint import Endpoint, check_request_id
from testbed.drive.flight import Route, Terms, collected, fly
from testbed.drive.handles import check_handles, free_handles
from testbed.drive.options import DEFAULTS, DriveOptions, Wording
from testbed.drive.orders import Order, Stop
from testbed.drive.pace import STALL_LIMIT_S, Standing, Tally
from testbed.drive.record import Recorder, record_planned
from testbed.drive.result import DriveResult, Progress, progress_of, result_of
from testbed.drive.share import Share, split, written_share
from testbed.errors import RunError
from testbed.journal.writer import JournalWriter
from testbed.workload.request import PlannedRequest

__all__ = ["STALL_LIMIT_S", "DriveOptions", "DriveResult", "Progress", "Wording", "drive"]

ZERO_IN_S = 0.2
"""The zero lies this far ahead: time to make the first connections."""


class Calls(TypedDict, total=False):
    """What a drive calls while it is on. Each is called from its loop and must return at once."""

    on_zero: Callable[[int], None] | None
    on_progress: Callable[[Progress], None] | None
    should_stop: Callable[[], bool] | None


def drive(
    requests: Sequence[PlannedRequest], endpoint: Endpoint, journal: JournalWriter, *,
    request_id: Callable[[PlannedRequest], str], options: DriveOptions = DEFAULTS, **calls: Unpack[Calls],
) -> DriveResult:
    """Send all `requests` at their times, wait for all to end, and journal each; blocks the calling thread.

    `on_zero` gets the zero, which lies ahead, once all requests are in the journal as planned. `on_progress` and
    `should_stop` are called about every 0.1 s; when `should_stop` says so, nothing more is sent, and what is in flight
    is cancelled or waited for, as `options` say.
    Raises: RunError if two requests have one id, one follows none that is planned, the server's name is unknown, a
    worker broke, or the journal can't be written. DeployError if this machine can't: connections, room on its disk.
    """
    ordered = sorted(requests, key=lambda request: request.scheduled_at_s)
    _check_ids(ordered, request_id)
    parts = [part for part in split(ordered, options.workers) if part] or [[]]
    warnings = _warnings(parts, options)
    route = Route(endpoint, look_up(endpoint), path_of(options.wording))
    with ExitStack() as stack:
        shares = [
            stack.enter_context(
                written_share(part, request_id, lambda one: body_of(one, endpoint, options.wording))
            )
            for part in parts
        ]
        record_planned(journal, ((one, request_id(one)) for one in ordered), warnings)
        launch = _Launch(shares, route, journal, options, calls, array("d", (one.scheduled_at_s for one in ordered)))
        tallies = launch.alone() if len(parts) == 1 else launch.together()
    return result_of(tallies, launch.zero_at_ns, warnings)


def _check_ids(requests: Sequence[PlannedRequest], request_id: Callable[[PlannedRequest], str]) -> None:
    ids = Counter(check_request_id(request_id(request)) for request in requests)
    twice = [name for name, count in ids.items() if count > 1]
    if twice:
        raise RunError(f"{len(twice)} request ids are used twice, such as {twice[0]}")


def _warnings(parts: Sequence[Sequence[PlannedRequest]], options: DriveOptions) -> list[str]:
    free = free_handles()
    found = [
        check_handles(part, options.concurrency_of(number, len(parts)), free) for number, part in enumerate(parts)
    ]
    return list(dict.fromkeys(warning for warning in found if warning is not None))


class _Launch:
    """All that a drive needs once its shares are written."""

    def __init__(
        self, shares: Sequence[Share], route: Route, journal: JournalWriter, options: DriveOptions, calls: Calls,
        planned_at_s: "array[float]",
    ) -> None:
        self._shares = shares
        self._route = route
        self._journal = journal
        self._options = options
        self._planned_at_s = planned_at_s
        self._on_zero, self._on_progress = calls.get("on_zero"), calls.get("on_progress")
        self._should_stop = calls.get("should_stop")
        self.zero_at_ns = 0

    def alone(self) -> list[Tally]:
        """In this process, in the calling thread."""
        options = self._options
        terms = Terms(
            options.max_concurrency, options.keep_in_flight_on_stop, self._stop_asked, self._drop_asked,
            tell=lambda standing: self._tell([standing]),
        )
        with Recorder(self._journal) as recorder, collected():
            self._set_zero()
            return [fly(self._shares[0], self._route, recorder, terms, self.zero_at_ns)]

    def together(self) -> list[Tally]:
        """In worker processes."""
        orders = [self._order(number, share) for number, share in enumerate(self._shares)]
        with Crew(self._shares, orders) as crew:
            crew.await_ready()
            self._set_zero()
            return crew.fly(self.zero_at_ns, self._tell, self._stop_wanted)

    def _order(self, number: int, share: Share) -> Order:
        endpoint, (arm, repetition) = self._route.endpoint, self._journal.place
        items, bodies = share.files
        return Order(
            items=f"/dev/fd/{items}", bodies=f"/dev/fd/{bodies}", count=share.count, base_url=endpoint.base_url,
            model=endpoint.model, address=self._route.address, path=self._route.path,
            journal_folder=str(self._journal.path.parent.resolve()), journal_name=f"client{number}", arm=arm,
            repetition=repetition, max_concurrency=self._options.concurrency_of(number, len(self._shares)),
            keep_in_flight_on_stop=self._options.keep_in_flight_on_stop, api_key=endpoint.api_key,
            ca_file=None if endpoint.ca_file is None else str(Path(endpoint.ca_file).resolve()),
        )

    def _set_zero(self) -> None:
        self.zero_at_ns = now_ns() + round(ZERO_IN_S * 1e9)
        if self._on_zero is not None:
            self._on_zero(self.zero_at_ns)

    def _tell(self, standings: Sequence[Standing]) -> None:
        if self._on_progress is not None:
            self._on_progress(progress_of(standings, self._planned_at_s, (now_ns() - self.zero_at_ns) / 1e9))

    def _stop_asked(self) -> bool:
        return self._should_stop is not None and self._should_stop()

    def _drop_asked(self) -> bool:
        return self._options.should_drop is not None and self._options.should_drop()

    def _stop_wanted(self) -> Stop | None:
        """What to tell the workers, also more than once."""
        return Stop(drop=self._drop_asked()) if self._stop_asked() else None
