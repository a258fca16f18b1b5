"""Connections over HTTP/1.1: no retry, no queue, no limit on their number.

A connection serves one request at a time and is used again while it is fresh. One that has lain idle longer is given
up, since a server closes idle connections too, and a request caught by that would look like a failure of the server.
What comes in is stamped at once and read later, so that a crowd of answers does not hold up each other's stamps.
"""

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from typing import Any, cast

import httptools

from testbed.clock import now_ns
from testbed.drive.endpoint import Endpoint
from testbed.drive.exchange import Exchange
from testbed.errors import RunError

REUSE_WITHIN_NS = 2_000_000_000
"""Well below the 5 s after which common servers close an idle connection."""
READ_FOR_NS = 500_000
"""So long is read at a stretch, before the socket is asked again what has come."""
FIRST_FINAL_STATUS = 200
TRY_FOR_S = 2.0
REST_NS = 250_000_000
"""After a connection could not be made ahead, so long no other is tried: what is due tries for itself."""


class Inbox:
    """What has come in on all connections and is not yet read, in order.

    Little is read as it comes. Of a crowd only as much as a stretch allows; the rest waits until all have their stamps.
    The loop's own time stands still while it hands over what one look at the sockets has found.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, on_over: Callable[[Exchange, "Connection"], None],
        on_bug: Callable[[BaseException], None],
    ) -> None:
        self._loop = loop
        self.on_over = on_over
        self._on_bug = on_bug
        self._waiting: deque[tuple[Connection, bytes | None, int]] = deque()
        self._look_s = 0.0
        self._look_began_ns = 0
        self._is_closed = False

    def put(self, connection: "Connection", data: bytes | None, at_ns: int) -> None:
        """Bytes that came at `at_ns`; None for the end of the connection."""
        if self._is_closed:
            return
        if self._waiting:
            self._waiting.append((connection, data, at_ns))
            return
        look_s = self._loop.time()
        if look_s != self._look_s:
            self._look_s, self._look_began_ns = look_s, at_ns
        if at_ns - self._look_began_ns < READ_FOR_NS:
            self._read_at_once(connection, data, at_ns)
        else:
            self._waiting.append((connection, data, at_ns))
            self._loop.call_soon(self._read_some)

    def _read_at_once(self, connection: "Connection", data: bytes | None, at_ns: int) -> None:
        try:
            connection.read(data, at_ns)
        except OSError as bug:
            # It is none of the socket's, for which the event loop would take it.
            self._on_bug(bug)

    def close(self) -> None:
        """Read nothing more."""
        self._is_closed = True
        self._waiting.clear()

    def read_all(self) -> None:
        """Read what is here, so that nothing is judged without what has come."""
        while self._waiting:
            self._read_one()

    def _read_some(self) -> None:
        until_ns = now_ns() + READ_FOR_NS
        while self._waiting and now_ns() < until_ns:
            self._read_one()
        if self._waiting:
            self._loop.call_soon(self._read_some)

    def _read_one(self) -> None:
        connection, data, at_ns = self._waiting.popleft()
        connection.read(data, at_ns)


class Connection(asyncio.Protocol):
    """One TCP connection, and the parser of what comes in on it. The on_... methods are called by that parser."""

    def __init__(self, inbox: Inbox) -> None:
        self.closed = False
        self.idle_since_ns = 0
        self._inbox = inbox
        self._transport: asyncio.Transport | None = None
        self._exchange: Exchange | None = None
        self._received_at_ns = 0
        self._lost: Exception | None = None
        self._pieces: list[bytes] = []
        self._is_complete = False
        self._keeps_alive = False
        self._parser = httptools.HttpResponseParser(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop, whose transports need not be of asyncio's own classes."""
        self._transport = cast(asyncio.Transport, transport)

    def begin(self, exchange: Exchange, message: bytes) -> int:
        """Send `message`; return when its first byte went out.

        Raises: ConnectionError if the connection was never made.
        """
        if self._transport is None:
            raise ConnectionError("not connected")
        self._exchange = exchange
        self._is_complete = False
        exchange.sent_at_ns = sent_at_ns = now_ns()
        self._transport.write(message)
        return sent_at_ns

    def data_received(self, data: bytes) -> None:
        """Called by the loop."""
        self._inbox.put(self, data, now_ns())

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop."""
        self.closed = True
        self._lost = exc
        self._inbox.put(self, None, now_ns())

    def read(self, data: bytes | None, at_ns: int) -> None:
        """Take bytes that came at `at_ns`, or the end."""
        exchange = self._exchange
        if exchange is None:
            self.abort()
            return
        if data is None:
            exchange.lose(self._lost)
        else:
            self._received_at_ns = at_ns
            exchange.began(at_ns)
            self._feed(data, exchange)
        if exchange.over:
            self._inbox.on_over(exchange, self)

    def _feed(self, data: bytes, exchange: Exchange) -> None:
        """All pieces of the body that one read brought came at one time, and are taken together."""
        pieces = self._pieces
        pieces.clear()
        problem: Exception | None = None
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserCallbackError as found:
            # What one of the methods below raised is a bug of ours.
            raise (found.__context__ or found) from None
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as found:
            problem = found
        if pieces:
            exchange.take(pieces[0] if len(pieces) == 1 else b"".join(pieces), self._received_at_ns)
        if problem is not None:
            exchange.break_off("bad_http", str(problem))
        elif self._is_complete:
            exchange.complete(keeps_alive=self._keeps_alive)

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header line."""
        if self._exchange is not None and not self._is_complete:
            self._exchange.header(name, value)

    def on_headers_complete(self) -> None:
        """The status is known from here on."""
        if self._exchange is not None and not self._is_complete:
            self._exchange.status(self._parser.get_status_code())

    def on_body(self, body: bytes) -> None:
        """A piece of the body, freed from HTTP's own chunks."""
        if not self._is_complete:
            self._pieces.append(body)

    def on_message_complete(self) -> None:
        """A response is whole; after one that only says to go on, the real one comes."""
        if not self._is_complete and self._parser.get_status_code() >= FIRST_FINAL_STATUS:
            self._is_complete = True
            self._keeps_alive = self._parser.should_keep_alive()

    def release(self) -> None:
        """Its exchange is over; it may have another."""
        self._exchange = None
        self.idle_since_ns = now_ns()

    def abort(self) -> None:
        """Close at once; the server sees that nobody waits any more."""
        self.closed = True
        self._exchange = None
        if self._transport is not None:
            self._transport.abort()


class Connections:
    """All connections to one endpoint. `peak_open` is the most requests that were on the wire at once."""

    def __init__(self, endpoint: Endpoint, address: tuple[str, int], inbox: Inbox) -> None:
        self._address = address
        self._inbox = inbox
        self._tls = endpoint.tls()
        self._name = endpoint.host if self._tls is not None else None
        self._idle: deque[Connection] = deque()
        self._making: set[asyncio.Task[None]] = set()
        self._open = 0
        self._rest_until_ns = 0
        self.peak_open = 0

    def take(self) -> Connection | None:
        """A fresh idle connection, the last one used first; None if a new one must be made."""
        oldest_ns = now_ns() - REUSE_WITHIN_NS
        while self._idle:
            connection = self._idle.pop()
            if not connection.closed and connection.idle_since_ns >= oldest_ns:
                return connection
            connection.abort()
        return None

    async def make(self) -> Connection:
        """A new connection.

        Raises: OSError if the server can't be reached.
        """
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(
            lambda: Connection(self._inbox), *self._address, ssl=self._tls, server_hostname=self._name
        )
        return connection

    def begin(self, connection: Connection, exchange: Exchange, message: bytes) -> int:
        """Send on it; return when its first byte went out."""
        self._open += 1
        self.peak_open = max(self.peak_open, self._open)
        return connection.begin(exchange, message)

    def give_back(self, connection: Connection, *, reusable: bool) -> None:
        """Its exchange is over: keep it for another, or close it."""
        self._open -= 1
        if reusable and not connection.closed:
            connection.release()
            self._idle.append(connection)
        else:
            connection.abort()

    def keep_ready(self, count: int, *, at_most_new: int) -> None:
        """Make connections ahead of their need, so that `count` lie idle soon; drop those that have lain too long."""
        oldest_ns = now_ns() - REUSE_WITHIN_NS
        while self._idle and (self._idle[0].closed or self._idle[0].idle_since_ns < oldest_ns):
            self._idle.popleft().abort()
        if now_ns() < self._rest_until_ns:
            return
        for _ in range(min(count - len(self._idle) - len(self._making), at_most_new)):
            task = asyncio.get_running_loop().create_task(self._make_idle())
            self._making.add(task)
            task.add_done_callback(self._making.discard)

    async def _make_idle(self) -> None:
        try:
            connection = await self.make()
        except OSError:
            # A request that needs it will meet the same trouble, and has an outcome to show it.
            self._rest_until_ns = now_ns() + REST_NS
            return
        connection.release()
        self._idle.append(connection)

    def close(self) -> None:
        """Close all that lie idle or are being made."""
        for task in self._making:
            task.cancel()
        while self._idle:
            self._idle.pop().abort()


def look_up(endpoint: Endpoint) -> tuple[str, int]:
    """The address of the server, looked up once, so that no request waits for it.

    Of several the first one that takes a connection: a name such as localhost may have one that nobody listens at.
    Raises: RunError if the name is unknown.
    """
    try:
        found = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    except OSError as problem:
        raise RunError(f"{endpoint.host} is unknown: {problem}", where=endpoint.base_url) from problem
    taking = (one for one in found if len(found) == 1 or _takes_connections(one[0], one[4]))
    host, port = next(taking, found[0])[4][:2]
    return str(host), int(port)


def _takes_connections(family: int, address: tuple[Any, ...]) -> bool:
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.settimeout(TRY_FOR_S)
        return probe.connect_ex(address) == 0
