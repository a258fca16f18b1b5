"""The open loop: absolute times from one zero, and a send that waits for no answer.

Everything that takes time is done before the zero: prompts are encoded and named, all requests are in the journal.
"""

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import msgspec
import uvloop

from testbed.clock import now_ns, sleep_async_s
from testbed.drive.client import Connections, open_connections, send
from testbed.drive.endpoint import Endpoint
from testbed.drive.exchange import Call
from testbed.drive.outcome import KINDS, Outcome
from testbed.drive.record import Recorder, record_ended, record_planned, record_sent
from testbed.errors import RunError
from testbed.journal.writer import JournalWriter
from testbed.missing import Missing
from testbed.workload.request import PlannedRequest

ZERO_IN_S = 0.2
RECORD_S_PER_REQUEST = 0.0002
"""The zero lies this far ahead, so that the planned requests are in the journal before the first is due."""
BEAT_S = 0.01
"""How often the loop looks at the clock to see by how much it was held up."""
BEATS_PER_LOOK = 10
"""How many beats pass between two questions whether to stop: about 0.1 s."""
P99_LEAST = 100


@dataclass(frozen=True)
class Progress:
    """Where a drive stands."""

    planned: int
    sent: int
    ended: int


@dataclass(frozen=True)
class DriveResult:
    """What a drive did, and how well the client itself kept time.

    `counts` has each outcome; its sum is `planned`. A lag is sent minus scheduled. `loop_stall_max_s` is the longest
    time by which the client's own loop was held up. `peak_open` is the most requests on the wire at once.
    """

    zero_at_ns: int
    planned: int
    counts: dict[str, int]
    send_lag_p50_s: float | Missing
    send_lag_p99_s: float | Missing
    send_lag_max_s: float | Missing
    loop_stall_max_s: float
    peak_open: int
    interrupted: bool


@dataclass(frozen=True)
class _Ready:
    """A request with all that could be done for it before its time."""

    request: PlannedRequest
    request_id: str
    prompt_key: str
    message: bytes

    def call(self, zero_at_ns: int) -> Call:
        scheduled_at_ns = zero_at_ns + round(self.request.scheduled_at_s * 1e9)
        deadline_at_ns = scheduled_at_ns + round(self.request.timeout_s * 1e9)
        return Call(self.request_id, self.message, scheduled_at_ns, deadline_at_ns)


def drive(
    requests: Sequence[PlannedRequest], endpoint: Endpoint, journal: JournalWriter, *,
    request_id: Callable[[PlannedRequest], str], on_zero: Callable[[int], None] | None = None,
    on_progress: Callable[[Progress], None] | None = None, should_stop: Callable[[], bool] | None = None,
) -> DriveResult:
    """Send all `requests` at their times, wait for all to end, and journal each; blocks the calling thread.

    `on_zero` gets the zero before any event is written. `should_stop` and `on_progress` are called from the loop about
    every 0.1 s and must return at once; when `should_stop` says so, nothing more is sent and what is in flight is
    cancelled.
    Raises: RunError if two requests have one id, the server's name is unknown, or the journal can't be written.
    """
    ready = _ready(requests, endpoint, request_id)
    with Recorder(journal) as recorder, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        flight = _Flight(ready, recorder, runner.get_loop(), on_progress, should_stop)
        return runner.run(flight.run(endpoint, on_zero))


def completion_body(request: PlannedRequest, model: str) -> bytes:
    """The JSON of one streaming completion: greedy, with token ids and usage, forced to its length if so planned."""
    body: dict[str, object] = {
        "model": model, "prompt": request.prompt, "max_tokens": request.max_tokens, "temperature": 0, "stream": True,
        "stream_options": {"include_usage": True}, "return_token_ids": True,
    }
    if request.stop == "forced":
        body |= {"ignore_eos": True, "min_tokens": request.max_tokens}
    return msgspec.json.encode(body)


def _ready(
    requests: Sequence[PlannedRequest], endpoint: Endpoint, request_id: Callable[[PlannedRequest], str]
) -> list[_Ready]:
    ordered = sorted(requests, key=lambda request: request.scheduled_at_s)
    ids = Counter(request_id(request) for request in ordered)
    twice = [name for name, count in ids.items() if count > 1]
    if twice:
        raise RunError(f"{len(twice)} request ids are used twice, such as {twice[0]}")
    return [
        _Ready(
            request, request_id(request), request.prompt_key,
            endpoint.message("/v1/completions", completion_body(request, endpoint.model), request_id(request)),
        )
        for request in ordered
    ]


class _Flight:
    """One drive in flight."""

    def __init__(
        self, ready: list[_Ready], recorder: Recorder, loop: asyncio.AbstractEventLoop,
        on_progress: Callable[[Progress], None] | None, should_stop: Callable[[], bool] | None,
    ) -> None:
        self._ready = ready
        self._recorder = recorder
        self._on_progress = on_progress
        self._should_stop = should_stop
        self._stopped: asyncio.Future[None] = loop.create_future()
        self._in_flight: set[asyncio.Task[Outcome]] = set()
        self._counts: Counter[str] = Counter()
        self._lags_s: list[float] = []
        self._stall_max_s = 0.0
        self._bug: BaseException | None = None

    async def run(self, endpoint: Endpoint, on_zero: Callable[[int], None] | None) -> DriveResult:
        try:
            connections = await open_connections(endpoint)
        except OSError as problem:
            raise RunError(f"{endpoint.host} is unknown: {problem}", where=endpoint.base_url) from problem
        zero_at_ns = now_ns() + round((ZERO_IN_S + RECORD_S_PER_REQUEST * len(self._ready)) * 1e9)
        if on_zero is not None:
            on_zero(zero_at_ns)
        for ready in self._ready:
            record_planned(self._recorder, ready.request, ready.request_id, ready.prompt_key)
        watch = asyncio.create_task(self._watch())
        try:
            await self._send_all(connections, zero_at_ns)
            while self._in_flight:
                await asyncio.wait(self._in_flight)
        finally:
            watch.cancel()
            connections.close()
        if self._bug is not None:
            raise self._bug
        self._tell_progress()
        return self._result(zero_at_ns, connections.peak_open)

    async def _send_all(self, connections: Connections, zero_at_ns: int) -> None:
        for ready in self._ready:
            call = ready.call(zero_at_ns)
            await self._wait_until(call.scheduled_at_ns)
            if self._stopped.done():
                self._end(call, Outcome("not_sent", "not_sent/interrupted", now_ns()))
                continue
            task = asyncio.create_task(send(connections, call, on_sent=partial(self._sent, call)))
            self._in_flight.add(task)
            task.add_done_callback(partial(self._done, call))

    async def _wait_until(self, at_ns: int) -> None:
        """Until `at_ns` or the stop. The loop's timers are coarse and may be early: what is left is waited again."""
        while (left_ns := at_ns - now_ns()) > 0 and not self._stopped.done():
            await asyncio.wait([self._stopped], timeout=left_ns / 1e9)

    def _sent(self, call: Call, sent_at_ns: int) -> None:
        self._lags_s.append((sent_at_ns - call.scheduled_at_ns) / 1e9)
        record_sent(self._recorder, call.request_id, call.scheduled_at_ns, sent_at_ns)

    def _done(self, call: Call, task: "asyncio.Task[Outcome]") -> None:
        self._in_flight.discard(task)
        if task.cancelled():
            # The stop came between the order to send and the first step of it.
            self._end(call, Outcome("not_sent", "not_sent/interrupted", now_ns()))
        elif (bug := task.exception()) is not None:
            self._bug = bug
            self._stop()
        else:
            self._end(call, task.result())

    def _end(self, call: Call, outcome: Outcome) -> None:
        self._counts[outcome.kind] += 1
        record_ended(self._recorder, call.request_id, call.scheduled_at_ns, outcome)

    async def _watch(self) -> None:
        """Measure how late the loop is, and look every few beats whether to stop."""
        beat = 0
        while True:
            due_ns = now_ns() + round(BEAT_S * 1e9)
            await sleep_async_s(BEAT_S)
            self._stall_max_s = max(self._stall_max_s, (now_ns() - due_ns) / 1e9)
            beat += 1
            if beat % BEATS_PER_LOOK == 0:
                self._look()

    def _look(self) -> None:
        self._tell_progress()
        wanted = self._recorder.broken or (self._should_stop is not None and self._should_stop())
        if wanted:
            self._stop()

    def _stop(self) -> None:
        if not self._stopped.done():
            self._stopped.set_result(None)
            for task in self._in_flight:
                task.cancel()

    def _tell_progress(self) -> None:
        if self._on_progress is not None:
            self._on_progress(Progress(len(self._ready), len(self._lags_s), self._counts.total()))

    def _result(self, zero_at_ns: int, peak_open: int) -> DriveResult:
        lags_s = sorted(self._lags_s)
        return DriveResult(
            zero_at_ns=zero_at_ns, planned=len(self._ready), counts={kind: self._counts[kind] for kind in KINDS},
            send_lag_p50_s=_quantile(lags_s, 0.5, least=1), send_lag_p99_s=_quantile(lags_s, 0.99, least=P99_LEAST),
            send_lag_max_s=_quantile(lags_s, 1.0, least=1), loop_stall_max_s=self._stall_max_s, peak_open=peak_open,
            interrupted=self._stopped.done(),
        )


def _quantile(ordered: list[float], q: float, *, least: int) -> float | Missing:
    """Linear between the neighbours of rank (n - 1) q."""
    if len(ordered) < least:
        return Missing(f"{len(ordered)} requests were sent, this needs {least}")
    rank = (len(ordered) - 1) * q
    low, high = ordered[math.floor(rank)], ordered[math.ceil(rank)]
    return low + (high - low) * (rank - math.floor(rank))
