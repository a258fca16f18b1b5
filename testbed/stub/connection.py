"""One connection of the stand-in: HTTP/1.1 in, prebuilt bytes out, each stamped in the moment in which it goes out.

What is written goes to the socket at once. The loop's own transports keep it until all other callbacks have run, so
that a stamp would be too early by however long these take.
"""

import asyncio
import os
import socket
import struct
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, cast

import httptools

from testbed.clock import now_ns

_RESET = struct.pack("ii", 1, 0)
_BAD_REQUEST = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_NO_SOCKET = -1


class HttpRequest(NamedTuple):
    """A whole request; `begun_at_ns` is when its first byte was there, `received_at_ns` when its last."""

    method: str
    path: str
    request_id: str | None
    authorization: str | None
    body: bytes
    begun_at_ns: int
    received_at_ns: int
    keep_alive: bool


class Connection(asyncio.Protocol):
    """Hands each whole request to `serve`, one at a time: the next one after `finish`."""

    def __init__(self, serve: Callable[["Connection", HttpRequest], None]) -> None:
        self.on_lost: Callable[[], None] | None = None
        self._serve = serve
        self._transport: asyncio.Transport | None = None
        self._fd = _NO_SOCKET
        self._parser = httptools.HttpRequestParser(self)
        self._at_ns = 0
        self._begun_at_ns = 0
        self._url = b""
        self._request_id: str | None = None
        self._authorization: str | None = None
        self._body: list[bytes] = []
        self._busy = False
        self._keep_alive = True
        self._waiting: deque[HttpRequest] = deque()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        self._transport = cast(asyncio.Transport, transport)
        self._fd = transport.get_extra_info("socket").fileno()

    def data_received(self, data: bytes) -> None:
        """Called by the loop; the time is taken before anything is read."""
        self._at_ns = now_ns()
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self.write(_BAD_REQUEST)
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop."""
        self._fd = _NO_SOCKET
        del self._parser  # the two refer to each other
        if self.on_lost is not None:
            lost, self.on_lost = self.on_lost, None
            lost()

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        self._begun_at_ns = self._at_ns
        self._url, self._request_id, self._authorization, self._body = b"", None, None, []

    def on_url(self, url: bytes) -> None:
        """A piece of the request's target."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header line."""
        lower = name.lower()
        if lower == b"x-request-id":
            self._request_id = value.decode("latin-1")
        elif lower == b"authorization":
            self._authorization = value.decode("latin-1")
        elif lower == b"expect":
            self.write(_CONTINUE)

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        self._body.append(body)

    def on_message_complete(self) -> None:
        """The request is whole."""
        request = HttpRequest(
            method=self._parser.get_method().decode(), path=self._url.partition(b"?")[0].decode("latin-1"),
            request_id=self._request_id, authorization=self._authorization, body=b"".join(self._body),
            begun_at_ns=self._begun_at_ns, received_at_ns=self._at_ns, keep_alive=self._parser.should_keep_alive(),
        )
        if self._busy:
            self._waiting.append(request)
        else:
            self._begin(request)

    def _begin(self, request: HttpRequest) -> None:
        self._busy = True
        self._keep_alive = request.keep_alive
        self._serve(self, request)

    def write(self, data: bytes) -> int:
        """Send `data`; return the time at which it went to the socket. After a loss it goes nowhere."""
        at_ns = now_ns()
        if self._fd == _NO_SOCKET or self._transport is None:
            return at_ns
        taken = 0
        if not self._transport.get_write_buffer_size():
            try:
                taken = os.write(self._fd, data)
            except BlockingIOError:
                taken = 0
            except ConnectionError:
                self._transport.abort()
                return at_ns
        if taken < len(data):
            self._transport.write(data[taken:])
        return at_ns

    def finish(self) -> None:
        """The answer is out: take the next request, or close if the client wants that."""
        self._busy = False
        self.on_lost = None
        if not self._keep_alive:
            self.close()
        elif self._waiting:
            self._begin(self._waiting.popleft())

    def close(self) -> None:
        """Close in good order."""
        self._fd = _NO_SOCKET
        if self._transport is not None:
            self._transport.close()

    def reset(self) -> None:
        """Close with a reset, as a crashed server does."""
        if self._transport is not None:
            self._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self._fd = _NO_SOCKET
            self._transport.abort()
