"""Names of a request: ours, and the one that the engine made of it."""

import re

_ENGINE_ID = re.compile(r"(?:chatcmpl|cmpl)-(?P<ours>.+?)(?:-\d+)?-[0-9a-f]{8}")


def our_id(engine_id: str) -> str:
    """Our X-Request-Id out of `cmpl-<X-Request-Id>-0-<8 hex>`; an id of another form is left as it is."""
    match = _ENGINE_ID.fullmatch(engine_id)
    return match["ours"] if match else engine_id
