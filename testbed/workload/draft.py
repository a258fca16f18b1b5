"""All requests of an arm in order of time: up to a duration, up to a number, or in a closed loop."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from testbed.spec.arrival import Closed
from testbed.spec.workload import Workload
from testbed.workload.request import PlannedRequest
from testbed.workload.scale import Scale
from testbed.workload.sessions import Source, plan_session
from testbed.workload.starts import class_picks, open_starts
from testbed.workload.streams import stream

EXTENSION_RATIO = 1.05
"""The duration grows by this until enough requests fall inside."""

AHEAD = 4.0
"""How many deviations beyond the expected duration the search for so many requests begins."""


@dataclass(frozen=True)
class Draft:
    """Requests in order of time, numbered; `cut` counts what was cut, by the fields of `Cut`."""

    requests: tuple[PlannedRequest, ...]
    cut: Counter[str]
    duration_s: float


def draft(workload: Workload, sources: Mapping[str, Source], seed: int, scale: Scale) -> Draft:
    """The requests that the workload asks for, of classes drawn from `sources`.

    Where it asks for so many, the window ends when the next one would have been due.
    """
    if isinstance(workload.arrival, Closed) and workload.requests is not None:
        requests, cut = _closed(workload, sources, workload.arrival.concurrency, workload.requests, seed)
        return Draft(requests, cut, scale.duration_s)

    def until(duration_s: float) -> Draft:
        return _until(workload, sources, seed, scale.rate_ratio, duration_s)

    wanted = workload.requests
    made = until(scale.duration_s if wanted is None else scale.duration_s * (1 + AHEAD / math.sqrt(wanted)))
    while not _enough(made, wanted, sources.values(), scale.min_documents):
        made = until(made.duration_s * EXTENSION_RATIO)
    if wanted is None:
        return made
    # What is cut depends on where the window ends, but not where nothing is cut and no session goes beyond it.
    simple = not any(made.cut.values()) and all(each.session_requests == 1 for each in workload.classes.values())
    end_s = made.requests[wanted].scheduled_at_s
    return Draft(made.requests[:wanted], made.cut if simple else until(end_s).cut, end_s)


@dataclass(frozen=True)
class _Made:
    """A request of a session that begins at `first`, when all sessions are counted through."""

    traffic_class: str
    first: int
    request: PlannedRequest

    @property
    def due(self) -> tuple[float, str]:
        """Order of sending. Equal times of one class keep the order of their sessions, since sorting is stable."""
        return self.request.scheduled_at_s, self.traffic_class


def numbered(requests: Iterable[PlannedRequest]) -> tuple[PlannedRequest, ...]:
    """The requests, which follow no others, with numbers from 0 in their order."""
    return tuple(replace(request, index=place) for place, request in enumerate(requests))


def _until(
    workload: Workload, sources: Mapping[str, Source], seed: int, rate_ratio: float, duration_s: float
) -> Draft:
    cut: Counter[str] = Counter()
    made: list[_Made] = []
    for start in open_starts(workload, seed, rate_ratio, duration_s):
        session = plan_session(sources[start.traffic_class], start.number, start.at_s, duration_s, cut)
        first = len(made)
        made += [_Made(start.traffic_class, first, request) for request in session]
    return Draft(tuple(_in_order(sorted(made, key=lambda one: one.due))), cut, duration_s)


def _in_order(made: list[_Made]) -> Iterator[PlannedRequest]:
    """The requests numbered through; what follows another one of its session still does."""
    places = {one.first + one.request.index: place for place, one in enumerate(made)}
    for place, one in enumerate(made):
        after = None if one.request.after is None else places[one.first + one.request.after]
        yield replace(one.request, index=place, after=after)


def _enough(made: Draft, wanted: int | None, sources: Iterable[Source], min_documents: int) -> bool:
    if wanted is not None:
        return len(made.requests) > wanted
    found = Counter(request.traffic_class for request in made.requests)
    counted = [source.counted_class for source in sources if source.counted_class is not None]
    return all(found[name] >= min_documents for name in counted)


def _closed(
    workload: Workload, sources: Mapping[str, Source], concurrency: int, wanted: int, seed: int
) -> tuple[tuple[PlannedRequest, ...], Counter[str]]:
    """Users who each go through sessions one after the other; the next session goes to whom has the fewest requests."""
    cut: Counter[str] = Counter()
    users: list[list[PlannedRequest]] = [[] for _ in range(concurrency)]
    each = -(-wanted // concurrency)
    for name, number in class_picks(workload.shares, stream(seed, "shares")):
        session = plan_session(sources[name], number, 0.0, math.inf, cut)
        think_s = sources[name].traffic.think
        min(users, key=len).extend(
            replace(request, think_s=think_s if request.index > 0 else 0.0, scheduled_at_s=0.0) for request in session
        )
        if min(map(len, users)) >= each:
            break
    in_turn = [user[step] for step in range(each) for user in users][:wanted]
    return tuple(
        replace(request, index=place, after=place - concurrency if place >= concurrency else None)
        for place, request in enumerate(in_turn)
    ), cut
