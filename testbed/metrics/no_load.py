"""Struck requests of which no load was left that could fail: a shortened promise is a miss, and no failed load.

A request is held between LOOKUP and LOAD. Meanwhile the guard's deadline may pass, or another request may compute the
same prefix, so that the engine finds it in its own memory. Then the last answer to LOOKUP promises nothing, and no
block is reserved: the fault was applied, and had nothing left to strike.
"""

from collections.abc import Iterable, Mapping

from testbed.journal.events import FaultApplied, KvLookup, KvReserve
from testbed.journal.run import Run


def without_load(run: Run, applied: Iterable[FaultApplied]) -> Mapping[str, str]:
    """Why each of these requests came to no load at all; those with a load are not in it."""
    since = {event.request_id: event.at_ns for event in applied}
    reserved = {event.request_id for event in run.journal.select(KvReserve)}
    last = {
        event.request_id: event for event in run.journal.select(KvLookup)
        if event.request_id in since and event.at_ns >= since[event.request_id]
    }
    return {one: _why(lookup) for one, lookup in last.items() if lookup.promised_tokens == 0 and one not in reserved}


def _why(lookup: KvLookup) -> str:
    if lookup.reason:
        return f"given up before its load: {lookup.reason}"
    return f"nothing was promised any more, and {lookup.local_tokens} tokens were found in the engine"
