"""Ask each engine to work: one token, with a deadline. An engine that answers a plain GET may have died inside."""

import asyncio
from collections.abc import Sequence

import msgspec

from testbed.clock import now_ns
from testbed.router.engine import Engine
from testbed.router.leg import Leg, Limits
from testbed.router.wire import message

PROMPT = (1, 2, 3, 4)
_JSON = [(b"Content-Type", b"application/json")]


class EngineHealth(msgspec.Struct, frozen=True):
    """Whether one engine gave a token, in how many seconds, or why not."""

    ok: bool
    answered_s: float | None
    reason: str | None = None


class Health(msgspec.Struct, frozen=True):
    """`status` is "ok" if all engines gave a token, else "failing"."""

    status: str
    engines: dict[str, EngineHealth]


async def ask_all(
    engines: Sequence[Engine], *, model: str, request_id: str, connect_s: float, limit_s: float
) -> Health:
    """Ask all at once; it takes at most `limit_s`."""
    found = await asyncio.gather(
        *(_ask(engine, model, f"{request_id}.{engine.name}", connect_s, limit_s) for engine in engines)
    )
    by_name = {engine.name: health for engine, health in zip(engines, found, strict=True)}
    return Health("ok" if all(health.ok for health in found) else "failing", by_name)


async def _ask(engine: Engine, model: str, request_id: str, connect_s: float, limit_s: float) -> EngineHealth:
    body = msgspec.json.encode({"model": model, "prompt": PROMPT, "max_tokens": 1, "temperature": 0})
    limits = Limits(connect_s, limit_s, "health")
    leg = Leg("only", engine, limits, None, lambda leg: None)
    leg.start(message(engine, "POST", "/v1/completions", body=body, headers=_JSON, request_id=request_id))
    try:
        await leg.ended
    finally:
        leg.abandon("client_gone")
    if leg.outcome != "ok":
        return EngineHealth(False, None, f"{leg.error} ({leg.reason})")
    return EngineHealth(True, (now_ns() - leg.began_at_ns) / 1e9)
