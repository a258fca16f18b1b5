"""Tell a frozen engine from a busy one: while requests wait and nothing at all comes, it is asked a plain question.

The question costs the engine no work, and a busy engine answers it at once. That it is answered proves nothing: an
engine may have died behind the process that answers, and then the deadlines of the legs decide.
"""

import asyncio
from collections.abc import Sequence

from testbed.clock import now_ns, sleep_async_s
from testbed.router.engine import Engine
from testbed.router.leg import Leg, Limits
from testbed.router.wire import message

QUESTION = "/health"
LOOKS_PER_LIMIT = 5


class Watch:
    """Looks at all engines again and again; gives up the legs of one that is silent for `alive_s` and then again."""

    def __init__(self, engines: Sequence[Engine], alive_s: float) -> None:
        self._engines = engines
        self._alive_s = alive_s
        self._asking: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Until it is cancelled."""
        try:
            while True:
                await sleep_async_s(self._alive_s / LOOKS_PER_LIMIT)
                for engine in self._engines:
                    if engine.name not in self._asking and self._is_silent(engine):
                        self._asking[engine.name] = asyncio.create_task(self._ask(engine))
        finally:
            for task in self._asking.values():
                task.cancel()

    def _is_silent(self, engine: Engine) -> bool:
        since_ns = now_ns() - round(self._alive_s * 1e9)
        waits = any(leg.sent_at_ns is not None and leg.sent_at_ns < since_ns for leg in engine.legs)
        return waits and engine.heard_at_ns < since_ns

    async def _ask(self, engine: Engine) -> None:
        leg = Leg("only", engine, Limits(self._alive_s, self._alive_s, "alive"), None, lambda leg: None)
        try:
            leg.start(message(engine, "GET", QUESTION))
            await leg.ended
            if not leg.answered:
                for one in list(engine.legs):
                    one.give_up("not_alive", f"it sends nothing, and left a plain question unanswered ({leg.reason})")
        finally:
            leg.abandon("router_stopped")
            del self._asking[engine.name]
