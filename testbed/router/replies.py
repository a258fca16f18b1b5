"""What a client is told when its request failed: which leg, which engine, why; as a status, or inside a stream."""

from collections.abc import Mapping

import msgspec

from testbed.router.leg import Leg

_TYPES: Mapping[str, tuple[int, str]] = {
    "failed/connect": (502, "engine_unreachable"),
    "failed/reset": (502, "engine_broke_off"),
    "failed/closed": (502, "engine_broke_off"),
    "failed/bad_http": (502, "engine_broke_off"),
}


class _Detail(msgspec.Struct, frozen=True, omit_defaults=True):
    message: str
    type: str
    code: int
    reason: str | None = None
    leg: str | None = None
    engine: str | None = None


class _Failure(msgspec.Struct, frozen=True):
    error: _Detail


def failure(
    status: int, kind: str, message: str, *,
    reason: str | None = None, leg: str | None = None, engine: str | None = None,
) -> bytes:
    """The JSON of a typed error, in the form that OpenAI clients know."""
    return msgspec.json.encode(_Failure(_Detail(message, kind, status, reason, leg, engine)))


def leg_failure(leg: Leg) -> tuple[int, bytes]:
    """Status and body for a leg that failed, timed out, or was given up."""
    if leg.outcome == "timed_out":
        status, kind = 504, "engine_silent"
    else:
        status, kind = _TYPES.get(leg.reason, (502, f"{leg.name}_failed"))
    message = f"{leg.name} on {leg.engine.where}: {leg.error if leg.error else leg.reason}"
    return status, failure(status, kind, message, reason=leg.reason, leg=leg.name, engine=leg.engine.name)


def in_stream(body: bytes) -> bytes:
    """A failure as the last events of a stream that has begun."""
    return b"data: " + body + b"\n\ndata: [DONE]\n\n"
