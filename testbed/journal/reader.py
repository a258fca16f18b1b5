"""Read a journal back: whole, or as it grows."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import msgspec

from testbed.errors import JournalError
from testbed.journal.events import AnyEvent, Event

E = TypeVar("E", bound=Event)


@dataclass(frozen=True)
class Journal:
    """The events of a run in order of time. `cut_lines` are last lines of a shard that were left incomplete.

    By a kill, or by a writer that could write no more; one that could write nothing at all is a gap.
    """

    events: tuple[Event, ...]
    cut_lines: tuple[str, ...] = ()
    gaps: tuple[str, ...] = field(default=())

    def select(self, kind: type[E], arm: str | None = None, repetition: int | None = None) -> list[E]:
        """The events of one kind, of one arm and repetition if given."""
        return [
            event
            for event in self.events
            if isinstance(event, kind)
            and (arm is None or event.arm == arm)
            and (repetition is None or event.repetition == repetition)
        ]


def read_journal(shards: Iterable[tuple[str, bytes]]) -> Journal:
    """Join shards, given as (name, content), into one journal ordered by time.

    Raises: JournalError for a line that is not an event, other than a last line without its end.
    """
    events: list[Event] = []
    cut: list[str] = []
    gaps: list[str] = []
    decoder = msgspec.json.Decoder(AnyEvent)
    for name, content in shards:
        if not content:
            gaps.append(f"{name} is empty: its writer could write nothing")
        shard = _read_shard(name, content, decoder, cut)
        missing = _missing_numbers(shard)
        if missing:
            gaps.append(f"{name}: {missing} of {len(shard) + missing} events are missing")
        events += shard
    events.sort(key=lambda event: event.at_ns)
    return Journal(tuple(events), tuple(cut), tuple(gaps))


def _read_shard(name: str, content: bytes, decoder: "msgspec.json.Decoder[AnyEvent]", cut: list[str]) -> list[AnyEvent]:
    lines = content.split(b"\n")
    last = lines.pop()
    if last:
        cut.append(f"{name}:{len(lines) + 1}")
    shard: list[AnyEvent] = []
    for number, line in enumerate(lines, start=1):
        try:
            shard.append(decoder.decode(line))
        except msgspec.MsgspecError as problem:
            raise JournalError(f"not an event: {problem}", where=f"{name}:{number}") from problem
    return shard


def _missing_numbers(shard: Sequence[AnyEvent]) -> int:
    """How many sequence numbers of one shard are not there."""
    return max((event.seq for event in shard), default=-1) + 1 - len({event.seq for event in shard})


def load_journal(run: Path) -> Journal:
    """Read all shards of `results/RUN/events`.

    Raises: JournalError if the folder holds no shard.
    """
    paths = sorted((run / "events").glob("*.jsonl"))
    if not paths:
        raise JournalError(
            "holds no events", where=str(run), hint="give a folder that `testbed run` made, such as results/RUN"
        )
    return read_journal((path.name, path.read_bytes()) for path in paths)


class Follower:
    """Reads a journal folder as it grows: each call of `fresh` gives the complete lines that have come since."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._offsets: dict[Path, int] = {}
        self._decoder = msgspec.json.Decoder(AnyEvent)

    def fresh(self) -> list[Event]:
        """The events that were completed since the last call, in order of time."""
        found: list[Event] = []
        for path in sorted(self._folder.glob("*.jsonl")):
            offset = self._offsets.setdefault(path, 0)
            with path.open("rb") as shard:
                shard.seek(offset)
                content = shard.read()
            whole = content.rfind(b"\n") + 1
            self._offsets[path] = offset + whole
            found += [self._decoder.decode(line) for line in content[:whole].splitlines() if line]
        return sorted(found, key=lambda event: event.at_ns)
