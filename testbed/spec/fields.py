"""The kinds of value that a spec is made of: durations, sizes, and the strict base of all models."""

import re
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict

_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|min|h)\s*")
_SECONDS = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(B|kB|MB|GB|TB|KiB|MiB|GiB|TiB)\s*")
_BYTES = {
    "B": 1,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}


class Spec(BaseModel):
    """A frozen part of a spec; an unknown key is an error, and no value is turned into another type."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def _duration_s(value: object) -> object:
    """Seconds of "2s", "500ms", "1.5min"; a bare number has no unit and is refused."""
    if isinstance(value, str) and (match := _DURATION.fullmatch(value)):
        return float(match[1]) * _SECONDS[match[2]]
    raise ValueError(f"{value!r} is not a duration; write a number with ms, s, min or h, such as 2s")


def _size_bytes(value: object) -> object:
    """Bytes of "4GiB" (2^32) or "4GB" (4 x 10^9); a bare number has no unit and is refused."""
    if isinstance(value, str) and (match := _SIZE.fullmatch(value)):
        size = float(match[1]) * _BYTES[match[2]]
        if size == int(size):
            return int(size)
    raise ValueError(f"{value!r} is not a size; write a number with kB, MB, GB, KiB, MiB or GiB, such as 4GiB")


def _as_float(value: object) -> object:
    """A whole number is a number too; True is not."""
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


DurationS = Annotated[float, BeforeValidator(_duration_s)]
SizeBytes = Annotated[int, BeforeValidator(_size_bytes)]
Number = Annotated[float, BeforeValidator(_as_float)]
