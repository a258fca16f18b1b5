"""One share of a schedule in flight: absolute times from one zero, and a send that waits for no answer.

All is done by callbacks of one loop, without a task or a timer for each request. Whatever may take long is cut into
short stretches, between which the sockets are asked what has come.
"""

import asyncio
import gc
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import uvloop

from testbed.clock import now_ns, sleep_async_s
from testbed.drive.alarm import Alarm
from testbed.drive.client import Connection, Connections, Inbox
from testbed.drive.deadlines import Deadlines
from testbed.drive.due import Due, Ready
from testbed.drive.endpoint import Endpoint, finish_head
from testbed.drive.exchange import Exchange
from testbed.drive.outcome import Kind, Outcome
from testbed.drive.pace import BEAT_S, Pace, Standing, Tally
from testbed.drive.record import Recorder, record_ended, record_sent
from testbed.drive.share import Share

BEATS_PER_LOOK = 10
"""How many beats pass between two questions whether to stop: about 0.1 s."""
SENDS_AT_ONCE = 8
CONNECT_AHEAD_NS = 250_000_000
CONNECTS_PER_BEAT = 32
TLS_CONNECTS_PER_BEAT = 4
NOT_SENT_AT_ONCE = 1_000


@dataclass(frozen=True)
class Route:
    """Where a share goes: the server, its address, and the path of each request."""

    endpoint: Endpoint
    address: tuple[str, int]
    path: str


@dataclass(frozen=True)
class Terms:
    """How many may be in flight, what a stop means, and who is asked and told about every 0.1 s."""

    max_concurrency: int | None
    keep_in_flight_on_stop: bool
    should_stop: Callable[[], bool]
    should_drop: Callable[[], bool]
    tell: Callable[[Standing], None]


@contextmanager
def collected() -> Iterator[None]:
    """Within it the garbage collector leaves alone what is there before.

    Looking through a large plan takes longer than a request may be late.
    """
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def fly(share: Share, route: Route, recorder: Recorder, terms: Terms, zero_at_ns: int) -> Tally:
    """Send all of `share` at its times and return when each request has ended; blocks the calling thread."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        flight = _Flight(share, route, recorder, terms, runner.get_loop())
        return runner.run(flight.run(zero_at_ns))


class _Flight:
    """One share in flight. `_flying` holds each request between its time and its end."""

    def __init__(
        self, share: Share, route: Route, recorder: Recorder, terms: Terms, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._share = share
        self._recorder = recorder
        self._terms = terms
        self._loop = loop
        self._head = route.endpoint.head(route.path)
        self._inbox = Inbox(loop, self._on_over, self._fail)
        self._connections = Connections(route.endpoint, route.address, self._inbox)
        self._connects_per_beat = TLS_CONNECTS_PER_BEAT if route.endpoint.is_secure else CONNECTS_PER_BEAT
        self._flying: dict[int, Exchange] = {}
        self._carriers: dict[int, Connection] = {}
        self._connecting: dict[int, asyncio.Task[None]] = {}
        self._over: asyncio.Future[None] = loop.create_future()
        self._left = share.count
        self._beats = 0
        self._is_stopped = False
        self._is_woken = False

    async def run(self, zero_at_ns: int) -> Tally:
        self._loop.set_exception_handler(self._on_problem)
        self._due = Due(self._share, zero_at_ns)
        self._pace = Pace(zero_at_ns)
        self._deadlines = Deadlines(now_ns())
        # Places that are free, each since when; without a limit they are not counted.
        most = self._terms.max_concurrency
        self._places: deque[int] | None = None if most is None else deque([zero_at_ns] * most)
        self._alarm = Alarm(self._loop, self._send_due)
        self._timer = self._loop.call_soon(self._beat)
        self._wake()
        self._see_whether_over()
        try:
            await self._over
        finally:
            await self._close()
        tally = self._finish()
        self._terms.tell(self._pace.standing(0))
        return tally

    async def _close(self) -> None:
        """Let go of all that is open, whatever has ended the flight."""
        self._timer.cancel()
        self._alarm.close()
        self._inbox.close()
        for task in self._connecting.values():
            task.cancel()
        for connection in self._carriers.values():
            connection.abort()
        self._connections.close()
        await sleep_async_s(0)

    # Out

    def _wake(self) -> None:
        """Look soon whether something is due."""
        if not self._is_woken:
            self._is_woken = True
            self._loop.call_soon(self._send_due)

    def _send_due(self) -> None:
        self._is_woken = False
        for _ in range(SENDS_AT_ONCE):
            if self._is_stopped or (self._places is not None and not self._places):
                return
            ready = self._due.pop(now_ns())
            if ready is None:
                self._alarm.set(self._due.next_at_ns())
                return
            self._launch(ready)
        self._wake()

    def _launch(self, ready: Ready) -> None:
        """It was scheduled when it was due, or when a place became free for it."""
        free_at_ns = ready.due_at_ns if self._places is None else self._places.popleft()
        exchange = Exchange(ready, max(ready.due_at_ns, free_at_ns))
        index = exchange.item.index
        self._flying[index] = exchange
        if exchange.deadline_at_ns <= now_ns():
            self._end(exchange, exchange.told("not_sent", "not_sent/deadline_passed"))
            return
        self._deadlines.add(index, exchange.deadline_at_ns)
        connection = self._connections.take()
        if connection is not None:
            self._begin(connection, exchange)
            return
        task = self._connecting[index] = self._loop.create_task(self._connect(exchange))
        task.add_done_callback(self._on_connected)

    async def _connect(self, exchange: Exchange) -> None:
        try:
            connection = await self._connections.make()
        except OSError as problem:
            del self._connecting[exchange.item.index]
            self._end(exchange, exchange.unconnected(problem))
            return
        del self._connecting[exchange.item.index]
        self._begin(connection, exchange)

    def _on_connected(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (bug := task.exception()) is not None:
            self._fail(bug)

    def _begin(self, connection: Connection, exchange: Exchange) -> None:
        item = exchange.item
        message = finish_head(self._head, item.request_id, item.body_bytes) + exchange.take_body()
        self._carriers[item.index] = connection
        sent_at_ns = self._connections.begin(connection, exchange, message)
        self._pace.sent(exchange.scheduled_at_ns, sent_at_ns)
        record_sent(self._recorder, item.request_id, exchange.scheduled_at_ns, sent_at_ns)

    # In

    def _on_over(self, exchange: Exchange, connection: Connection) -> None:
        """Called by the inbox: the response is whole, or nothing more can come."""
        del self._carriers[exchange.item.index]
        self._connections.give_back(connection, reusable=exchange.reusable)
        self._end(exchange, exchange.outcome())

    def _break_off(self, exchange: Exchange, kind: Kind) -> None:
        index = exchange.item.index
        if index in self._carriers:
            self._connections.give_back(self._carriers.pop(index), reusable=False)
        if index in self._connecting:
            self._connecting.pop(index).cancel()
        self._end(exchange, exchange.broken_off(kind))

    def _end(self, exchange: Exchange, outcome: Outcome) -> None:
        item = exchange.item
        del self._flying[item.index]
        self._deadlines.drop(item.index, exchange.deadline_at_ns)
        self._count(item.request_id, exchange.scheduled_at_ns, outcome)
        self._due.ended(item, outcome.ended_at_ns)
        if self._places is not None:
            self._places.append(outcome.ended_at_ns)
        if self._places is not None or item.followers:
            self._wake()
        self._see_whether_over()

    def _count(self, request_id: str, scheduled_at_ns: int, outcome: Outcome) -> None:
        self._left -= 1
        self._pace.ended(scheduled_at_ns, outcome)
        record_ended(self._recorder, request_id, scheduled_at_ns, outcome)

    # Time

    def _beat(self) -> None:
        at_ns = now_ns()
        self._pace.beat(at_ns)
        self._due.read_ahead(at_ns)
        soon = self._due.most_at_once(at_ns + CONNECT_AHEAD_NS)
        self._connections.keep_ready(
            soon if self._places is None else min(soon, len(self._places)), at_most_new=self._connects_per_beat
        )
        self._end_late(at_ns)
        self._recorder.flush()
        self._beats += 1
        if self._beats % BEATS_PER_LOOK == 0:
            self._look()
        self._timer = self._loop.call_later(BEAT_S, self._beat)

    def _end_late(self, at_ns: int) -> None:
        """What has come is read first, for it may be the whole answer."""
        late = self._deadlines.passed(at_ns)
        if late:
            self._inbox.read_all()
            for index in late:
                if index in self._flying:
                    self._break_off(self._flying[index], "timed_out")

    def _look(self) -> None:
        self._terms.tell(self._pace.standing(len(self._flying)))
        if self._recorder.broken or (self._is_stopped and self._terms.should_drop()):
            self._stop(keep_in_flight=False)
        elif not self._is_stopped and self._terms.should_stop():
            self._stop(keep_in_flight=self._terms.keep_in_flight_on_stop)

    def _stop(self, *, keep_in_flight: bool) -> None:
        """Send nothing more."""
        self._is_stopped = True
        if not keep_in_flight:
            self._inbox.read_all()
            for exchange in list(self._flying.values()):
                self._break_off(exchange, "cancelled")
        self._see_whether_over()

    # End

    def _see_whether_over(self) -> None:
        if not self._flying and (self._is_stopped or not self._left) and not self._over.done():
            self._over.set_result(None)

    def _finish(self) -> Tally:
        """Count what never went out, and how the loop fared to the end."""
        self._pace.beat(now_ns())
        for number, item in enumerate(self._due.rest(), start=1):
            at_ns = self._due.own_time(item)
            self._count(item.request_id, at_ns, Outcome("not_sent", "not_sent/interrupted", now_ns()))
            if number % NOT_SENT_AT_ONCE == 0:
                self._recorder.flush()
        return self._pace.tally(self._connections.peak_open, interrupted=self._is_stopped)

    def _on_problem(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """What a callback raised ends the flight; what a socket met is told to its connection too."""
        problem = context.get("exception")
        is_of_a_socket = isinstance(problem, OSError) and "handle" not in context
        if problem is not None and not is_of_a_socket:
            self._fail(problem)

    def _fail(self, bug: BaseException) -> None:
        if not self._over.done():
            self._over.set_exception(bug)
