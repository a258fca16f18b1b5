"""The legs of a request, and their names.

A request that is served by one engine has one leg, `only`, which bears the request's own id. One whose prefill and
decode are apart has two, and the engines' ids tell them apart: `RUN.ARM.REP.INDEX.prefill` and `….decode`.
"""

from typing import Literal, get_args

LegName = Literal["only", "prefill", "decode"]


def leg_id(request_id: str, leg: LegName) -> str:
    """The id under which a leg travels to its engine."""
    return request_id if leg == "only" else f"{request_id}.{leg}"


def split_leg(travelling_id: str) -> tuple[str, LegName]:
    """The request's own id and the leg, out of the id that an engine knows."""
    own, _, last = travelling_id.rpartition(".")
    for leg in get_args(LegName):
        if own and last == leg and leg != "only":
            return own, leg
    return travelling_id, "only"
