"""One client's connection: its requests one after the other, and the answers that the router gives.

While a request is answered the connection is still read, so that a client that leaves is seen at once: its task is then
cancelled, and with it every leg.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import urlsplit

import httptools

from testbed.clock import now_ns
from testbed.router.headers import Headers, end_to_end, header_lines

BODY_LIMIT_BYTES = 64 * 2**20
"""Above the ids of a five-million-token prompt."""
_REASONS = {
    200: b"OK", 400: b"Bad Request", 404: b"Not Found", 405: b"Method Not Allowed", 413: b"Content Too Large",
    429: b"Too Many Requests", 500: b"Internal Server Error", 502: b"Bad Gateway", 503: b"Service Unavailable",
    504: b"Gateway Timeout",
}
_JSON: Headers = [(b"Content-Type", b"application/json")]


@dataclass
class Asked:
    """One request of a client. `headers` are those for the far end, without the request id."""

    received_at_ns: int
    method: str = ""
    path: str = ""
    headers: Headers = field(default_factory=list)
    request_id: str | None = None
    body: bytes = b""
    keep_alive: bool = False
    is_old: bool = False


Handle = Callable[[Asked, "Client"], Coroutine[Any, Any, None]]


class Client(asyncio.Protocol):
    """`started` once the head of the answer is out, whose status is `status`.

    `on_flow` is called with True when the client reads too slowly, and with False when it has caught up.

    The on_... methods are for the HTTP parser.
    """

    def __init__(self, handle: Handle, everyone: "set[Client]") -> None:
        self.started = False
        self.status: int | None = None
        self.on_flow: Callable[[bool], None] | None = None
        self._handle = handle
        self._everyone = everyone
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpRequestParser(self)
        self._asked = Asked(0)
        self._body: list[bytes] = []
        self._body_bytes = 0
        self._waiting: deque[Asked] = deque()
        self._task: asyncio.Task[None] | None = None
        self._current: Asked | None = None
        self._chunked = False
        self._refused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop, whose transports need not be of asyncio's own classes."""
        self._transport = cast(asyncio.Transport, transport)
        self._everyone.add(self)

    def data_received(self, data: bytes) -> None:
        """Called by the loop."""
        if self._refused:
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._refused = True  # the request counts, what the client would speak next does not
        except httptools.HttpParserError as problem:
            self._refuse(400, f"this is not HTTP/1.1: {problem}")

    def on_message_begin(self) -> None:
        """A request begins."""
        self._asked = Asked(now_ns())
        self._body, self._body_bytes = [], 0

    def on_url(self, url: bytes) -> None:
        """A piece of the request's target."""
        self._asked.path += url.decode("latin-1")

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header line of the request."""
        lower = name.lower()
        if lower == b"x-request-id":
            self._asked.request_id = value.decode("latin-1")
        elif end_to_end(lower):
            self._asked.headers.append((name, value))
        elif lower == b"expect" and self._transport is not None:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        """A piece of the request's body."""
        self._body_bytes += len(body)
        if self._body_bytes <= BODY_LIMIT_BYTES:
            self._body.append(body)
        elif not self._refused:
            self._refuse(413, f"the body is longer than {BODY_LIMIT_BYTES} bytes")

    def on_message_complete(self) -> None:
        """The request is whole: answer it, or keep it until the one before is answered."""
        if self._refused:
            return
        asked = self._asked
        asked.method = self._parser.get_method().decode("latin-1")
        asked.path = urlsplit(asked.path).path
        asked.is_old = self._parser.get_http_version() != "1.1"
        asked.keep_alive = self._parser.should_keep_alive() and not asked.is_old
        asked.body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        self._body = []
        self._waiting.append(asked)
        if self._task is None:
            self._next()

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop: the client has left, and nothing that it asked for is wanted any more."""
        self._transport = None
        self._refused = True
        self._everyone.discard(self)
        self._waiting.clear()
        if self._task is not None:
            self._task.cancel()

    def pause_writing(self) -> None:
        """Called by the loop when the client reads too slowly."""
        if self.on_flow is not None:
            self.on_flow(True)

    def resume_writing(self) -> None:
        """Called by the loop when the client has caught up."""
        if self.on_flow is not None:
            self.on_flow(False)

    def begin(self, status: int, headers: Headers) -> None:
        """The head of an answer whose length is not known."""
        asked = self._current
        self._chunked = asked is not None and not asked.is_old
        length = b"Transfer-Encoding: chunked\r\n" if self._chunked else b""
        self._head(status, headers, length)

    def piece(self, data: bytes) -> None:
        """A piece of that answer."""
        if self._transport is not None:
            self._transport.write(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)

    def finish(self) -> None:
        """Its end."""
        if self._chunked:
            self._write(b"0\r\n\r\n")
        elif self._current is not None:
            self._current.keep_alive = False

    def whole(self, status: int, headers: Headers, body: bytes) -> None:
        """An answer of known length."""
        self._head(status, headers, b"Content-Length: %d\r\n" % len(body))
        self._write(body)

    def json(self, status: int, body: bytes, headers: Headers | None = None) -> None:
        """A JSON answer of ours."""
        self.whole(status, _JSON + (headers if headers is not None else []), body)

    def break_off(self) -> "asyncio.Task[None] | None":
        """Close the connection at once; returns what is then still to end, if a request was being answered."""
        if self._transport is not None:
            self._transport.abort()
        return self._task

    def leave(self) -> None:
        """Close the connection, after what has been written."""
        if self._transport is not None:
            self._transport.close()

    def _head(self, status: int, headers: Headers, length: bytes) -> None:
        self.started, self.status = True, status
        close = b"" if self._current is not None and self._current.keep_alive else b"Connection: close\r\n"
        reason = _REASONS.get(status, b"-")
        self._write(b"HTTP/1.1 %d %b\r\n%b%b%b\r\n" % (status, reason, header_lines(headers), length, close))

    def _write(self, data: bytes) -> None:
        if self._transport is not None and data:
            self._transport.write(data)

    def _next(self) -> None:
        self._current = self._waiting.popleft()
        self.started, self.status, self.on_flow = False, None, None
        self._task = asyncio.get_running_loop().create_task(self._handle(self._current, self))
        self._task.add_done_callback(self._done)

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._task = None
        bug = None if task.cancelled() else task.exception()
        if bug is not None:
            self.leave()
            raise bug
        if self._transport is None:
            return
        if self._refused or task.cancelled() or self._current is None or not self._current.keep_alive:
            self.leave()
        elif self._waiting:
            self._next()

    def _refuse(self, status: int, message: str) -> None:
        """Answer what can't be read, once what was asked before is out of the way, and close."""
        self._refused = True
        if self._task is None:
            self._current = None
            self.whole(status, [(b"Content-Type", b"text/plain")], message.encode())
            self.leave()
