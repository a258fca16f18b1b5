"""A drive of a made-up schedule, and what its journal says of it."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import pytest

from testbed.drive.endpoint import Endpoint
from testbed.drive.schedule import DriveResult, drive
from testbed.journal.events import Event, Note, RequestEnded, RequestPlanned, RequestSent
from testbed.journal.reader import read_journal
from testbed.journal.writer import JournalWriter
from testbed.workload.request import PlannedRequest

PAUSE_LIMIT_S = 0.25
"""So long a busy machine may hold up this process or the server; the effects tested for are far longer."""


def request(index: int, at_s: float = 0.0, max_tokens: int = 4, **more: Any) -> PlannedRequest:
    """A small request; `more` are fields of it."""
    planned = PlannedRequest(
        index=index, traffic_class="c", scheduled_at_s=at_s, prompt=(1, 2, index), max_tokens=max_tokens,
        stop="natural", timeout_s=20.0,
    )
    return replace(planned, **more)


def name_of(planned: PlannedRequest) -> str:
    """The id of a request as a run would give it."""
    return f"R.arm.0.{planned.index}"


class Driven:
    """A drive that has ended, with its journal."""

    def __init__(self, result: DriveResult, events: Sequence[Event]) -> None:
        self.result = result
        self.events = events
        self.planned = [event for event in events if isinstance(event, RequestPlanned)]
        self.notes = [event.text for event in events if isinstance(event, Note)]
        self.sent = {_index(event.request_id): event for event in events if isinstance(event, RequestSent)}
        self.ended = {_index(event.request_id): event for event in events if isinstance(event, RequestEnded)}

    def reasons(self) -> Counter[str]:
        """How many ended for each reason; ok has none."""
        return Counter(event.reason or event.outcome for event in self.ended.values())

    def scheduled_s(self, index: int) -> float:
        """When one was due, from the zero."""
        return (self.ended[index].scheduled_at_ns - self.result.zero_at_ns) / 1e9

    def ended_s(self, index: int) -> float:
        """When one ended, from the zero."""
        return (self.ended[index].ended_at_ns - self.result.zero_at_ns) / 1e9


def _index(request_id: str) -> int:
    return int(request_id.rpartition(".")[2])


class Driver(Protocol):
    """Drive a schedule at a server; the options are those of `drive`."""

    def __call__(self, server: str | Endpoint, requests: Sequence[PlannedRequest], **options: Any) -> Driven: ...


@pytest.fixture(autouse=True)
def near_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    """A zero that lies less far ahead, for there are many drives."""
    monkeypatch.setattr("testbed.drive.schedule.ZERO_IN_S", 0.02)


@pytest.fixture
def driven(tmp_path: Path) -> Callable[..., Driven]:
    """See Driver."""

    def run(server: str | Endpoint, requests: Sequence[PlannedRequest], **options: Any) -> Driven:
        journal = JournalWriter(tmp_path / "events", "drive")
        journal.enter("arm", 0)
        endpoint = Endpoint(server, "stub") if isinstance(server, str) else server
        try:
            result = drive(requests, endpoint, journal, request_id=name_of, **options)
        finally:
            journal.close()
        return Driven(result, events_of(tmp_path / "events"))

    return run


def events_of(folder: Path) -> tuple[Event, ...]:
    """All events in the shards of a folder; they must be whole."""
    found = read_journal((path.name, path.read_bytes()) for path in sorted(folder.glob("*.jsonl")))
    assert not found.gaps
    assert not found.cut_lines
    return found.events
