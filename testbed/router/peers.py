"""Who a prefill engine is at this moment: its identity, not its address.

An identity holds while the connection over which it was learnt is open, and for MAX_AGE_S: an engine that ends closes
it, so that one started again at the same address is asked anew and known as another.
"""

import asyncio
from collections.abc import Callable

from testbed.clock import now_ns
from testbed.router.connection import EngineConnection
from testbed.router.engine import Engine
from testbed.router.leg import Leg, Limits
from testbed.router.wire import message
from testbed.spec.routing import EngineAt
from testbed.transfers.handoff import HandoffError, PeerQuestion

MAX_AGE_S = 5.0
"""A host that lost its power closes nothing."""


class Peer:
    """One prefill engine's identity. `on_change` gets the old and the new one when they differ."""

    def __init__(
        self, name: str, url: str, question: PeerQuestion, limit_s: float, on_change: Callable[[str, str], None]
    ) -> None:
        self.url = url
        self._question = question
        self._server = Engine(EngineAt(name=name, url=url, role="prefill"))
        self._limit_s = limit_s
        self._on_change = on_change
        self._id: str | None = None
        self._connection: EngineConnection | None = None
        self._learnt_at_ns = 0
        self._asking: asyncio.Task[str] | None = None

    async def identity(self) -> str:
        """Who it is now. Requests that come together ask together.

        Raises: HandoffError when it does not say.
        """
        if self._id is not None and self.holds():
            return self._id
        if self._asking is None or self._asking.done():
            self._asking = asyncio.get_running_loop().create_task(self._ask())
        return await asyncio.shield(self._asking)

    def holds(self) -> bool:
        """Whether what was learnt is still true, as far as can be known without asking."""
        is_open = self._connection is not None and not self._connection.closed
        return is_open and now_ns() - self._learnt_at_ns < MAX_AGE_S * 1e9

    async def _ask(self) -> str:
        limits = Limits(self._limit_s, self._limit_s, "bootstrap")
        leg = Leg("prefill", self._server, limits, None, lambda leg: None)
        leg.start(message(self._server, "GET", self._question.path))
        await leg.ended
        if leg.outcome != "ok":
            raise HandoffError(f"{self._server.where} does not say who it is: {leg.error} ({leg.reason})")
        found = self._question.read(bytes(leg.body))
        if self._id is not None and found != self._id:
            self._on_change(self._id, found)
        self._id, self._connection, self._learnt_at_ns = found, leg.connection, now_ns()
        return found

    def close(self) -> None:
        """Give the connection back."""
        self._server.connections.close()
