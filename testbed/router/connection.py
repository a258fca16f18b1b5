"""Connections to one engine: each serves one leg at a time, and is used again only while it is fresh.

An engine closes a connection that has lain idle, and a leg caught by that would look like a failure of the engine: so
one that has lain idle for longer than REUSE_WITHIN_S is given up. One that the engine has closed is never used.
"""

import asyncio
from typing import Protocol, cast

from testbed.clock import now_ns

REUSE_WITHIN_S = 2.0
"""Well below the 5 s after which common servers close an idle connection."""


class Receiver(Protocol):
    """Who gets what comes in on a connection."""

    def receive(self, data: bytes, at_ns: int) -> None:
        """Bytes that came at `at_ns`."""

    def lose(self, problem: Exception | None) -> None:
        """The connection is gone; without a `problem` the engine closed it in good order."""


class EngineConnection(asyncio.Protocol):
    """One TCP connection to an engine."""

    def __init__(self) -> None:
        self.closed = False
        self.idle_since_ns = 0
        self._transport: asyncio.Transport | None = None
        self._receiver: Receiver | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop, whose transports need not be of asyncio's own classes."""
        self._transport = cast(asyncio.Transport, transport)

    def send(self, receiver: Receiver, message: bytes) -> None:
        """Give `message` to the engine; what comes back goes to `receiver`."""
        self._receiver = receiver
        if self._transport is not None:
            self._transport.write(message)

    def data_received(self, data: bytes) -> None:
        """Called by the loop; the time is taken before anything is read."""
        if self._receiver is None:
            self.abort()
        else:
            self._receiver.receive(data, now_ns())

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop."""
        self.closed = True
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            receiver.lose(exc)

    def pause(self) -> None:
        """Read no more for now: who gets the answer is slow."""
        if self._transport is not None and not self.closed:
            self._transport.pause_reading()

    def resume(self) -> None:
        """Read again."""
        if self._transport is not None and not self.closed:
            self._transport.resume_reading()

    def rest(self) -> None:
        """Its leg is over; it may have another."""
        self._receiver = None
        self.idle_since_ns = now_ns()

    def abort(self) -> None:
        """Close at once; the engine sees that nobody waits any more."""
        self.closed = True
        self._receiver = None
        if self._transport is not None:
            self._transport.abort()


class Connections:
    """The connections to one address that lie idle."""

    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)
        self._idle: list[EngineConnection] = []

    def take_idle(self) -> EngineConnection | None:
        """A fresh one, the last used first, or None."""
        while self._idle:
            connection = self._idle.pop()
            if not connection.closed and now_ns() - connection.idle_since_ns < REUSE_WITHIN_S * 1e9:
                return connection
            connection.abort()
        return None

    async def open(self) -> EngineConnection:
        """A new one.

        Raises: OSError if the engine can't be reached.
        """
        _, connection = await asyncio.get_running_loop().create_connection(EngineConnection, *self._address)
        return connection

    def give_back(self, connection: EngineConnection) -> None:
        """Keep one for another leg."""
        connection.rest()
        self._idle.append(connection)

    def has_open(self) -> bool:
        """Whether one lies idle that the engine has not closed."""
        return any(not connection.closed for connection in self._idle)

    def close(self) -> None:
        """Close all that lie idle."""
        while self._idle:
            self._idle.pop().abort()
