"""One request and its response: every byte is stamped when it comes, and judged at the end."""

import errno

import msgspec

from testbed.clock import now_ns
from testbed.drive.answer import StreamFold
from testbed.drive.due import Ready
from testbed.drive.outcome import Kind, Outcome, judge_answer, judge_status
from testbed.drive.share import Item
from testbed.drive.sse import SseError, SseParser

ERROR_BODY_LIMIT_BYTES = 2_000
"""So much of an error's body is kept for the journal."""
OUR_LIMITS = (errno.EMFILE, errno.ENFILE, errno.EADDRNOTAVAIL)
"""What the system says when this process may open no more connections: no fault of the server."""


class Exchange:
    """A request on its way, and its response as the HTTP parser takes it apart. `over` when nothing more can come."""

    __slots__ = (
        "_body",
        "_error",
        "_events",
        "_first_byte_at_ns",
        "_fold",
        "_is_stream",
        "_status",
        "_to_send",
        "_trouble",
        "deadline_at_ns",
        "item",
        "left",
        "over",
        "reusable",
        "scheduled_at_ns",
        "sent_at_ns",
        "until_close",
    )

    def __init__(self, ready: Ready, scheduled_at_ns: int) -> None:
        self.item: Item = ready.item
        self._to_send = ready.body
        self.scheduled_at_ns = scheduled_at_ns
        self.deadline_at_ns = scheduled_at_ns + ready.item.timeout_ns
        self.sent_at_ns: int | None = None
        self.over = False
        self.left = False
        self.reusable = False
        self.until_close = True
        self._events = SseParser()
        self._fold = StreamFold()
        self._first_byte_at_ns: int | None = None
        self._status: int | None = None
        self._is_stream = False
        self._body = b""
        self._trouble: str | None = None
        self._error: str | None = None

    def take_body(self) -> bytes:
        """The body of the request, once: it is not held while the answer comes."""
        body, self._to_send = self._to_send, b""
        return body

    def began(self, at_ns: int) -> None:
        """The first byte of the response came."""
        if self._first_byte_at_ns is None:
            self._first_byte_at_ns = at_ns

    def header(self, name: bytes, value: bytes) -> None:
        """One header line of the response."""
        lower = name.lower()
        if lower == b"content-type":
            self._is_stream = value.lower().startswith(b"text/event-stream")
        elif lower in (b"content-length", b"transfer-encoding"):
            self.until_close = False

    def status(self, status: int) -> None:
        """The head of the response is whole."""
        self._status = status

    def take(self, body: bytes, at_ns: int) -> None:
        """A piece of the response's body that came at `at_ns`, freed from HTTP's own chunks."""
        if self.over:
            return
        if self._status != 200 or not self._is_stream:
            self._body += body[: ERROR_BODY_LIMIT_BYTES - len(self._body)]
            return
        try:
            self._fold_all(self._events.feed(body), at_ns)
        except SseError as problem:
            self.break_off("too_long", str(problem))
        except msgspec.MsgspecError as problem:
            self.break_off("bad_chunk", str(problem))

    def _fold_all(self, events: list[bytes], at_ns: int) -> None:
        """Take the events up to the one with which the user has seen enough."""
        fold, limit = self._fold, self.item.leaves_after_tokens
        for data in events:
            fold.add(data, at_ns)
            if limit is not None and fold.came_tokens >= limit:
                self.left = self.over = True
                return

    def complete(self, *, keeps_alive: bool) -> None:
        """The response is whole; the connection may be used again if both sides keep it."""
        if not self.over:
            self.reusable = keeps_alive
            self.over = True

    def lose(self, problem: Exception | None) -> None:
        """The connection is gone; without a `problem` the server closed it in good order."""
        if problem is not None:
            self.break_off("reset", str(problem))
        elif self._status is not None and self.until_close:
            self.over = True
        else:
            self.break_off("closed", "the server closed the connection before the end of its response")

    def break_off(self, trouble: str, error: str) -> None:
        """Nothing more can be understood."""
        if not self.over:
            self._trouble, self._error = trouble, error
            self.over = True

    def outcome(self) -> Outcome:
        """The verdict on an exchange that is over by itself. After [DONE] no later trouble counts."""
        answer = self._fold.answer()
        if self.left:
            return self.told("cancelled", "cancelled/left")
        if self._status not in (None, 200):
            return self.told(*judge_status(self._status), _error_message(self._body))
        if self._trouble is not None and not answer.done:
            return self.told("failed", f"failed/{self._trouble}", self._error)
        if not self._is_stream:
            return self.told("failed", "failed/not_a_stream", _error_message(self._body))
        return self.told(*judge_answer(answer), answer.error)

    def broken_off(self, kind: Kind) -> Outcome:
        """The verdict when we ended it: `KIND/connect`, `KIND/no_token` or `KIND/in_stream`, by how far it came."""
        answer = self._fold.answer()
        if answer.done:
            return self.outcome()
        if self.sent_at_ns is None:
            return self.told(kind, f"{kind}/connect")
        return self.told(kind, f"{kind}/in_stream" if answer.chunk_at_ns else f"{kind}/no_token")

    def unconnected(self, problem: OSError) -> Outcome:
        """The verdict when no connection could be made: by the server, or since this process may open no more."""
        if problem.errno in OUR_LIMITS:
            return self.told("not_sent", "not_sent/client_limit", str(problem))
        return self.told("failed", "failed/connect", str(problem))

    def told(self, kind: Kind, reason: str, error: str | None = None) -> Outcome:
        """This verdict with all stamps so far; it ends now."""
        return Outcome(
            kind, reason, now_ns(), self._fold.answer(), self.sent_at_ns, self._first_byte_at_ns, self._status, error
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
