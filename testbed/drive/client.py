"""Send one streaming request over HTTP/1.1: no retry, no queue, no limit on connections.

A connection serves one request at a time and is used again while it is fresh. One that has lain idle longer is given
up, since a server closes idle connections too, and a request caught by that would look like a failure of the server.
"""

import asyncio
import resource
import socket
from collections.abc import Callable
from typing import cast

from testbed.clock import now_ns
from testbed.drive.endpoint import Endpoint
from testbed.drive.exchange import Call, Exchange
from testbed.drive.outcome import Outcome

REUSE_WITHIN_S = 2.0
"""Well below the 5 s after which common servers close an idle connection."""


class Connection(asyncio.Protocol):
    """One TCP connection. It hands what comes in to the exchange that is on it."""

    def __init__(self) -> None:
        self.closed = False
        self.idle_since_ns = 0
        self._transport: asyncio.Transport | None = None
        self._exchange: Exchange | None = None

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
        sent_at_ns = now_ns()
        self._transport.write(message)
        return sent_at_ns

    def data_received(self, data: bytes) -> None:
        """Called by the loop; the time is taken before anything is read."""
        at_ns = now_ns()
        if self._exchange is None or self._exchange.ended.done():
            self.abort()
        else:
            self._exchange.receive(data, at_ns)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop."""
        self.closed = True
        if self._exchange is not None:
            self._exchange.lose(exc)

    def release(self) -> None:
        """Its exchange is over; it may have another."""
        self._exchange = None
        self.idle_since_ns = now_ns()

    def abort(self) -> None:
        """Close at once; the server sees that nobody waits any more."""
        self.closed = True
        if self._transport is not None:
            self._transport.abort()


class Connections:
    """All connections to one endpoint. `peak_open` is the most requests that were on the wire at once."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._idle: list[Connection] = []
        self._open = 0
        self.peak_open = 0

    async def take(self) -> Connection:
        """A fresh idle connection, the last one used first, or a new one.

        Raises: OSError if the server can't be reached.
        """
        while self._idle:
            connection = self._idle.pop()
            if not connection.closed and now_ns() - connection.idle_since_ns < REUSE_WITHIN_S * 1e9:
                break
            connection.abort()
        else:
            _, connection = await asyncio.get_running_loop().create_connection(Connection, *self._address)
        self._open += 1
        self.peak_open = max(self.peak_open, self._open)
        return connection

    def give_back(self, connection: Connection, *, reusable: bool) -> None:
        """Keep `connection` for another request, or close it."""
        self._open -= 1
        if reusable and not connection.closed:
            connection.release()
            self._idle.append(connection)
        else:
            connection.abort()

    def close(self) -> None:
        """Close all that lie idle."""
        while self._idle:
            self._idle.pop().abort()


async def open_connections(endpoint: Endpoint) -> Connections:
    """Look the address up once, so that no request waits for it, and allow as many open files as the system does.

    Raises: OSError if the name is unknown.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    found = await asyncio.get_running_loop().getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    host, port = found[0][4][:2]
    return Connections((str(host), int(port)))


async def send(connections: Connections, call: Call, *, on_sent: Callable[[int], None]) -> Outcome:
    """Send one request now and wait for its end, at most until its deadline; `on_sent` gets the time it went out.

    Cancelling the task ends the request: the connection is closed and the outcome says cancelled.
    """
    left_s = (call.deadline_at_ns - now_ns()) / 1e9
    if left_s <= 0:
        return Outcome("not_sent", "not_sent/deadline_passed", now_ns())
    exchange = Exchange(asyncio.get_running_loop().create_future())
    connection: Connection | None = None
    try:
        async with asyncio.timeout(left_s):
            connection = await connections.take()
            exchange.sent_at_ns = connection.begin(exchange, call.message)
            on_sent(exchange.sent_at_ns)
            await exchange.ended
            return exchange.outcome()
    except TimeoutError:
        return exchange.broken_off("timed_out")
    except asyncio.CancelledError:
        return exchange.broken_off("cancelled")
    except OSError as problem:
        return exchange.told("failed", "failed/connect", str(problem))
    finally:
        if connection is not None:
            connections.give_back(connection, reusable=exchange.reusable)
