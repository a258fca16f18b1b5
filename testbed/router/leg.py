"""One request to one engine, and its answer: sent once, stamped, ended by the engine, a deadline or who gives it up.

An answer that is a stream of events is handed on as it comes, event by event; any other is kept whole until its end.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import httptools

from testbed.clock import now_ns
from testbed.journal.legs import LegName
from testbed.router.connection import EngineConnection
from testbed.router.engine import Engine
from testbed.router.headers import Headers, end_to_end
from testbed.router.stream import (
    AnswerTooLong,
    Usage,
    WholeEvents,
    error_in_stream,
    message_of,
    usage_of,
    usage_of_stream,
)

BODY_LIMIT_BYTES = 64 * 2**20
"""An answer that is kept whole may be so long."""


NEVER_NS = 2**62
"""For a leg that is no part of a longer request."""


class Sink(Protocol):
    """Who gets a stream of events."""

    def stream(self, leg: "Leg", events: bytes) -> None:
        """One or more whole events. The status and the headers of the leg are known by now."""


@dataclass(frozen=True)
class Limits:
    """The deadlines of one leg. `answer_s` is for the whole answer, or for the first byte where `silence_s` follows.

    A leg that does not answer for so long ends as timed_out/`answer_reason`.
    """

    connect_s: float
    answer_s: float
    answer_reason: str
    silence_s: float | None = None
    total_at_ns: int = NEVER_NS


class Leg:
    """`ended` is for one to wait on; once it is `over`, `outcome` and `reason` say how.

    The on_... methods are called by the HTTP parser.
    """

    def __init__(
        self, name: LegName, engine: Engine, limits: Limits, sink: Sink | None, on_end: "Callable[[Leg], None]"
    ) -> None:
        self.name = name
        self.engine = engine
        self.over = False
        self.outcome = ""
        self.reason = ""
        self.error: str | None = None
        self.status: int | None = None
        self.headers: Headers = []
        self.body = bytearray()
        self.began_at_ns = now_ns()
        self.sent_at_ns: int | None = None
        self.first_byte_at_ns: int | None = None
        self.last_byte_at_ns: int | None = None
        self.pieces = 0
        self.body_bytes = 0
        self.usage = Usage()
        self.connection: EngineConnection | None = None
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self._limits = limits
        self._silence_ns = None if limits.silence_s is None else round(limits.silence_s * 1e9)
        self._sink = sink
        self._on_end = on_end
        self._message = b""
        self._parser = httptools.HttpResponseParser(self)
        self._events: WholeEvents | None = None
        self._until_close = True
        self._whole = False
        self._kept = False
        self._fresh: list[bytes] = []
        self._tail = (b"", b"")
        self._paused = False
        self._phase = ""
        self._due_ns = 0
        self._armed_ns = 2 * NEVER_NS
        self._timer: asyncio.TimerHandle | None = None
        self._opening: asyncio.Task[EngineConnection] | None = None

    def start(self, message: bytes) -> None:
        """Send, over a connection that is there or a new one."""
        self.engine.legs.add(self)
        self._message = message
        self._enter("connect", self._limits.connect_s)
        connection = self.engine.connections.take_idle()
        if connection is not None:
            self._send(connection)
        else:
            self._opening = self._loop.create_task(self.engine.connections.open())
            self._opening.add_done_callback(self._opened)

    def _opened(self, opening: "asyncio.Task[EngineConnection]") -> None:
        self._opening = None
        if opening.cancelled():
            return
        problem = opening.exception()
        if isinstance(problem, OSError):
            self._end("failed", "failed/connect", str(problem))
        elif problem is not None:
            raise problem
        elif self.over:
            opening.result().abort()
        else:
            self._send(opening.result())

    def _send(self, connection: EngineConnection) -> None:
        self.connection = connection
        self._enter(self._limits.answer_reason, self._limits.answer_s)
        self.sent_at_ns = now_ns()
        connection.send(self, self._message)
        self._message = b""

    def receive(self, data: bytes, at_ns: int) -> None:
        """Take the bytes that came at `at_ns`."""
        if self.first_byte_at_ns is None:
            self.first_byte_at_ns = at_ns
        self.last_byte_at_ns = self.engine.heard_at_ns = at_ns
        try:
            self._parser.feed_data(data)
            if self._fresh:
                self._take_fresh(at_ns)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade, AnswerTooLong) as problem:
            self._end("failed", "failed/bad_http", str(problem))
        if self._whole:
            self._end_answered()

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header line of the answer."""
        lower = name.lower()
        if lower in (b"content-length", b"transfer-encoding"):
            self._until_close = False
        elif lower == b"content-type" and value.lower().startswith(b"text/event-stream"):
            self._events = WholeEvents()
        if end_to_end(lower):
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """The status is known from here on."""
        self.status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        """A piece of the body, freed from HTTP's own chunks."""
        self._fresh.append(body)

    def on_message_complete(self) -> None:
        """The answer is whole, and the connection may be used again if both sides keep it."""
        self._whole = True
        self._kept = self._parser.should_keep_alive()

    def _take_fresh(self, at_ns: int) -> None:
        """Hand on, or keep, what the last read has brought of the body."""
        piece = self._fresh[0] if len(self._fresh) == 1 else b"".join(self._fresh)
        self._fresh.clear()
        self.pieces += 1
        self.body_bytes += len(piece)
        if self._silence_ns is not None:
            self._phase, self._due_ns = "silence", at_ns + self._silence_ns
            if self._due_ns < self._armed_ns:
                self._arm()
        if self._events is None or self._sink is None:
            self.body += piece
            if len(self.body) > BODY_LIMIT_BYTES:
                raise AnswerTooLong(f"an answer is longer than {BODY_LIMIT_BYTES} bytes")
            return
        events = self._events.feed(piece)
        if events and not self.over:
            self._tail = (self._tail[1], events)
            self._sink.stream(self, events)

    def lose(self, problem: Exception | None) -> None:
        """The connection is gone; without a `problem` the engine closed it in good order."""
        if problem is not None:
            self._end("failed", "failed/reset", str(problem))
        elif self.status is not None and self._until_close:
            self._end_answered()
        else:
            self._end("failed", "failed/closed", "it closed the connection before the end of its answer")

    def abandon(self, reason: str) -> None:
        """Nobody needs the answer any more: close the connection, so that the engine frees what it holds."""
        self._end("cancelled", f"cancelled/{reason}", None)

    def give_up(self, reason: str, error: str) -> None:
        """End it as timed out, since its engine is known not to answer."""
        self._end("timed_out", f"timed_out/{reason}", error)

    @property
    def answered(self) -> bool:
        """Whether the engine's answer is whole, whatever its status."""
        return self._whole

    def pause(self) -> None:
        """Read no more for now; the engine's silence is then not its own."""
        self._paused = True
        if self.connection is not None:
            self.connection.pause()

    def resume(self) -> None:
        """Read again."""
        self._paused = False
        if self.connection is not None and not self.over:
            self._enter(self._phase, self._phase_s())
            self.connection.resume()

    def _end_answered(self) -> None:
        self._whole = True
        rest = self._events.rest() if self._events is not None else b""
        if rest and self._sink is not None:
            self._sink.stream(self, rest)
        tail = b"".join(self._tail)
        if self.status != 200:
            self._end("failed", f"failed/http_{self.status}", message_of(bytes(self.body)))
        elif self._events is None or self._sink is None:
            self.usage = usage_of(bytes(self.body))
            self._end("ok", "", None)
        else:
            self.usage = usage_of_stream(tail)
            said = error_in_stream(tail)
            self._end("ok", "", None) if said is None else self._end("failed", "failed/error_in_stream", said)

    def _end(self, outcome: str, reason: str, error: str | None) -> None:
        if self.over:
            return
        self.over = True
        self.outcome, self.reason, self.error = outcome, reason, error
        self.engine.legs.discard(self)
        self._release()
        unanswered = outcome in ("failed", "timed_out") and not self._whole
        self.engine.ended(self.name, reason if reason else outcome, unanswered=unanswered)
        self._on_end(self)
        if not self.ended.done():  # who waited for it may have been cancelled, and this with it
            self.ended.set_result(None)

    def _release(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._opening is not None:
            self._opening.cancel()
        connection = self.connection
        if connection is None:
            return
        if self._kept and not connection.closed and not self._paused:
            self.engine.connections.give_back(connection)
        else:
            connection.abort()

    def _phase_s(self) -> float:
        limits = self._limits
        return limits.silence_s if self._phase == "silence" and limits.silence_s is not None else limits.answer_s

    def _enter(self, phase: str, seconds: float) -> None:
        """From now on `phase` may last so long. One timer serves all phases: it looks again when it was too early."""
        self._phase = phase
        self._due_ns = now_ns() + round(seconds * 1e9)
        if self._due_ns < self._armed_ns:
            self._arm()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._armed_ns = min(self._due_ns, self._limits.total_at_ns)
        self._timer = self._loop.call_later(max(0.0, (self._armed_ns - now_ns()) / 1e9), self._look)

    def _look(self) -> None:
        now = now_ns()
        if self._paused:
            self._due_ns = now + round(self._phase_s() * 1e9)
        if now < self._due_ns and now < self._limits.total_at_ns:
            self._arm()
            return
        phase = "total" if now >= self._limits.total_at_ns else self._phase
        self._end("timed_out", f"timed_out/{phase}", "it did not answer in time")
