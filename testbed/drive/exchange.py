"""One request and its response on one connection: every byte is stamped when it comes, and judged at the end."""

import asyncio
from dataclasses import dataclass

import httptools
import msgspec

from testbed.clock import now_ns
from testbed.drive.outcome import Answer, Kind, Outcome, StreamFold, judge_answer, judge_status
from testbed.drive.sse import SseError, SseParser

ERROR_BODY_LIMIT_BYTES = 2_000
"""So much of an error's body is kept for the journal."""


@dataclass(frozen=True)
class Call:
    """A request ready to go out: `message` is the whole HTTP request, encoded before it is due."""

    request_id: str
    message: bytes
    scheduled_at_ns: int
    deadline_at_ns: int


class Exchange:
    """The response as its bytes come in. `ended` is set when it is whole or can't become so.

    The on_... methods are called by the HTTP parser.
    """

    def __init__(self, ended: "asyncio.Future[None]") -> None:
        self.ended = ended
        self.sent_at_ns: int | None = None
        self.reusable = False
        self._parser = httptools.HttpResponseParser(self)
        self._events = SseParser()
        self._fold = StreamFold()
        self._received_at_ns = 0
        self._first_byte_at_ns: int | None = None
        self._status: int | None = None
        self._is_stream = False
        self._until_close = True
        self._body = bytearray()
        self._trouble: str | None = None
        self._error: str | None = None

    def receive(self, data: bytes, at_ns: int) -> None:
        """Take the bytes that the socket gave at `at_ns`."""
        self._received_at_ns = at_ns
        if self._first_byte_at_ns is None:
            self._first_byte_at_ns = at_ns
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as problem:
            self._break_off("bad_http", str(problem))

    def lose(self, problem: Exception | None) -> None:
        """The connection is gone; without a `problem` the server closed it in good order."""
        if problem is not None:
            self._break_off("reset", str(problem))
        elif self._status is not None and self._until_close:
            self._finish()
        else:
            self._break_off("closed", "the server closed the connection before the end of its response")

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header line of the response."""
        lower = name.lower()
        if lower in (b"content-length", b"transfer-encoding"):
            self._until_close = False
        elif lower == b"content-type":
            self._is_stream = value.lower().startswith(b"text/event-stream")

    def on_headers_complete(self) -> None:
        """The status is known from here on."""
        self._status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        """A piece of the body, freed from HTTP's own chunks."""
        if self._status != 200 or not self._is_stream:
            self._body += body[: ERROR_BODY_LIMIT_BYTES - len(self._body)]
            return
        try:
            for event in self._events.feed(body):
                self._fold.add(event, self._received_at_ns)
        except SseError as problem:
            self._break_off("too_long", str(problem))
        except msgspec.MsgspecError as problem:
            self._break_off("bad_chunk", str(problem))

    def on_message_complete(self) -> None:
        """The response is whole, and the connection may be used again if both sides keep it."""
        self.reusable = self._trouble is None and self._parser.should_keep_alive()
        self._finish()

    def _break_off(self, trouble: str, error: str) -> None:
        if not self.ended.done():
            self._trouble, self._error = trouble, error
            self._finish()

    def _finish(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)

    def outcome(self) -> Outcome:
        """The verdict on an exchange that has ended by itself. After [DONE] no later trouble counts."""
        answer = self._fold.answer()
        if self._status not in (None, 200):
            return self.told(*judge_status(self._status), _error_message(bytes(self._body)))
        if self._trouble is not None and not answer.done:
            return self.told("failed", f"failed/{self._trouble}", self._error)
        if not self._is_stream:
            return self.told("failed", "failed/not_a_stream", _error_message(bytes(self._body)))
        return self.told(*judge_answer(answer), answer.error)

    def broken_off(self, kind: Kind) -> Outcome:
        """The verdict when we ended it: `KIND/connect`, `KIND/no_token` or `KIND/in_stream`, by how far it came."""
        answer = self._fold.answer()
        if answer.done:
            return self.outcome()
        if self.sent_at_ns is None:
            return self.told(kind, f"{kind}/connect")
        return self.told(kind, f"{kind}/in_stream" if answer.chunks else f"{kind}/no_token")

    def told(self, kind: Kind, reason: str, error: str | None = None) -> Outcome:
        """This verdict with all stamps so far; it ends now."""
        answer: Answer = self._fold.answer()
        return Outcome(
            kind=kind, reason=reason, ended_at_ns=now_ns(), answer=answer, sent_at_ns=self.sent_at_ns,
            first_byte_at_ns=self._first_byte_at_ns, http_status=self._status, error=error,
        )


def _error_message(body: bytes) -> str:
    """What the server says in a JSON error, else the start of its text."""
    try:
        said = msgspec.json.decode(body, type=_ErrorBody)
    except msgspec.MsgspecError:
        return body.decode(errors="backslashreplace")
    message = said.error.message if said.error is not None else said.message
    return message if message is not None else body.decode(errors="backslashreplace")


class _ErrorDetail(msgspec.Struct, frozen=True):
    message: str | None = None


class _ErrorBody(msgspec.Struct, frozen=True):
    error: _ErrorDetail | None = None
    message: str | None = None
