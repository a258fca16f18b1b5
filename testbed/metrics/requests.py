"""One row per planned request: what was planned, when it was sent, how it ended."""

from collections.abc import Iterable
from dataclasses import dataclass

from testbed.journal.events import Event, RequestEnded, RequestPlanned, RequestSent
from testbed.journal.run import Run

NS = 1e9


@dataclass(frozen=True, slots=True)
class RequestRow:
    """A planned request and what became of it. `ends` counts its `request_ended` events: 1 where all is well.

    `measured` is False for fill, and for requests whose id has a prefix of its own instead of the arm's name.
    """

    planned: RequestPlanned
    sent: RequestSent | None
    ended: RequestEnded | None
    ends: int
    measured: bool

    @property
    def request_id(self) -> str:
        """RUN.ARM.REP.INDEX."""
        return self.planned.request_id

    @property
    def arm(self) -> str:
        """The arm it belongs to."""
        return self.planned.arm

    @property
    def repetition(self) -> int:
        """The repetition of its arm."""
        return self.planned.repetition

    @property
    def traffic_class(self) -> str:
        """The class of traffic, such as long_doc."""
        return self.planned.traffic_class

    @property
    def pair_key(self) -> tuple[int, int]:
        """What the same planned request has in common in all arms."""
        return self.planned.repetition, self.planned.index

    @property
    def due_at_ns(self) -> int | None:
        """When it was to be sent; None where a run was broken off before."""
        if self.sent is not None:
            return self.sent.scheduled_at_ns
        return None if self.ended is None else self.ended.scheduled_at_ns

    @property
    def sent_at_ns(self) -> int | None:
        """When its first byte went out; None if it never did."""
        if self.sent is not None:
            return self.sent.sent_at_ns
        return None if self.ended is None else self.ended.sent_at_ns

    @property
    def ok(self) -> bool:
        """True for a complete answer."""
        return self.ended is not None and self.ended.outcome == "ok"

    @property
    def output_tokens(self) -> int | None:
        """Tokens of the answer: by the server's usage, else by the chunks, else by the ids; None if nothing tells."""
        ended = self.ended
        if ended is None:
            return None
        if ended.usage_output_tokens is not None:
            return ended.usage_output_tokens
        if ended.chunk_tokens:
            return sum(ended.chunk_tokens)
        return len(ended.token_ids) if ended.token_ids else None


@dataclass(frozen=True)
class Requests:
    """All rows in the order of their planning, and what did not fit together."""

    rows: tuple[RequestRow, ...]
    problems: tuple[str, ...]

    def by_id(self) -> dict[str, RequestRow]:
        """The rows by request id."""
        return {row.request_id: row for row in self.rows}


def prefix_of(request_id: str, run: str) -> str:
    """The part of a request id that names its arm, or `canary`, `warmup`, `golden`, …"""
    rest = request_id[len(run) + 1:] if request_id.startswith(f"{run}.") else request_id.partition(".")[2]
    return rest.partition(".")[0]


def join_requests(run: Run) -> Requests:
    """Join the planned, sent and ended events of each request.

    A later `request_ended` of the same request never replaces the first; both are counted.
    """
    planned: dict[str, RequestPlanned] = {}
    sent: dict[str, RequestSent] = {}
    ended: dict[str, RequestEnded] = {}
    ends: dict[str, int] = {}
    problems: list[str] = []
    for event in _of_requests(run.journal.events):
        if isinstance(event, RequestPlanned):
            if event.request_id in planned:
                problems.append(f"{event.request_id} was planned twice")
            planned.setdefault(event.request_id, event)
        elif isinstance(event, RequestSent):
            sent.setdefault(event.request_id, event)
        else:
            ended.setdefault(event.request_id, event)
            ends[event.request_id] = ends.setdefault(event.request_id, 0) + 1
    problems += [f"{one} was never planned" for one in sorted((ended.keys() | sent.keys()) - planned.keys())
                 if prefix_of(one, run.manifest.run) in {arm.name for arm in run.manifest.arms}]
    rows = tuple(
        RequestRow(event, sent.get(one), ended.get(one), ends.setdefault(one, 0), _is_measured(event, run.manifest.run))
        for one, event in planned.items()
    )
    return Requests(rows, tuple(problems))


def _of_requests(events: Iterable[Event]) -> Iterable[RequestPlanned | RequestSent | RequestEnded]:
    return (event for event in events if isinstance(event, RequestPlanned | RequestSent | RequestEnded))


def _is_measured(event: RequestPlanned, run: str) -> bool:
    return event.measured and prefix_of(event.request_id, run) == event.arm
