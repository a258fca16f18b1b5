"""What every kind of trace comes down to: rows in order of time, what is wrong with the others, and what to know.

A row says when, how long, and of which pieces its prompt is made. Equal pieces at the start of two prompts are equal
text: that is all a trace knows of prefixes, whether it calls them blocks, turns or documents.
"""

import hashlib
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import PurePath
from typing import Literal

from testbed.errors import SpecError
from testbed.spec.tree import Problem, refuse

PROBLEMS_SHOWN = 20
"""A file of another format is wrong in every line; the first ones tell."""


@dataclass(frozen=True, slots=True)
class TraceRow:
    """One request. `at_ns` counts from wherever the file's own clock begins.

    Piece `ids[k]` of the prompt ends before token `ends[k]`; the last one may be shorter than elsewhere. Without ids
    nothing is known, and nothing is shared. What a format does not say is None.
    """

    line: int
    at_ns: int
    input_tokens: int
    output_tokens: int
    ids: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()
    session: int | None = None
    turn: int | None = None
    traffic_class: str | None = None
    stop: Literal["forced", "natural"] | None = None


@dataclass(frozen=True)
class Conversation:
    """One recorded talk: (role, text) in order; roles are system, user and assistant."""

    number: int
    messages: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Reading:
    """What a reader of one format made of a file, in the order of the file."""

    rows: tuple[TraceRow, ...] = ()
    problems: tuple[Problem, ...] = ()
    conversations: tuple[Conversation, ...] = ()


@dataclass(frozen=True)
class TraceRecords:
    """A trace ready to be played: rows in order of time, none of them merged or dropped without a word in `notes`.

    `warnings` are about what is probably not meant. A file of conversations has no rows until they are given times.
    """

    where: str
    sha256: str
    rows: tuple[TraceRow, ...]
    conversations: tuple[Conversation, ...] = ()
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def has_ids(self) -> bool:
        """True where the file says what prompts share."""
        return any(row.ids for row in self.rows)

    def summary(self) -> str:
        """What a manifest keeps of it in place of the file."""
        count = f"{len(self.conversations)} conversations" if self.conversations else f"{len(self.rows)} requests"
        return f"{PurePath(self.where).name}: {count}, sha256 {self.sha256}\n"

    def warned(self, warning: str) -> "TraceRecords":
        """The same, with one warning more."""
        return replace(self, warnings=(*self.warnings, warning))


def digest(content: bytes) -> str:
    """What names a file's content in plans and manifests."""
    return hashlib.sha256(content).hexdigest()


def decode_text(content: bytes, *, where: str) -> str:
    """The text of a file in UTF-8, without a byte order mark.

    Raises: SpecError, with the line that is no such text.
    """
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        line = content.count(b"\n", 0, problem.start) + 1
        raise SpecError("is not text in UTF-8", where=f"{where}:{line}", hint="convert the file") from problem


def numbered_lines(text: str) -> list[tuple[int, str]]:
    """The lines that hold something, counted from 1; only CR and LF end a line, not what else Unicode calls one."""
    lines = enumerate(re.split("\r\n|\n|\r", text), start=1)
    return [(number, line) for number, line in lines if line.strip()]


def settle(reading: Reading, *, where: str, sha256: str, bad_rows: Literal["refuse", "skip"]) -> TraceRecords:
    """Rows in order of time, with notes on what was skipped, moved, or stands there twice.

    Raises: SpecError with all problems, unless they are to be skipped; or if nothing is left.
    """
    if reading.problems and bad_rows == "refuse":
        raise refuse(shortened(reading.problems, where))
    if not (reading.rows or reading.conversations):
        raise SpecError("holds no request", where=where)
    rows, moved = in_order(reading.rows)
    return TraceRecords(
        where, sha256, rows, reading.conversations,
        notes=tuple(_notes(reading.problems, reading.rows, moved)),
    )


def shortened(problems: Sequence[Problem], where: str) -> list[Problem]:
    """The first problems, and how many more there are."""
    left = len(problems) - PROBLEMS_SHOWN
    return [*problems[:PROBLEMS_SHOWN], *([Problem(where, f"and {left} more")] if left > 0 else [])]


def in_order(rows: Sequence[TraceRow]) -> tuple[tuple[TraceRow, ...], int]:
    """Rows by time, equal times in the order of the file; and the least number of rows that had to move for it."""
    tails: list[int] = []
    for row in rows:
        # tails[n] is the earliest time at which n + 1 rows in order can end
        place = bisect_right(tails, row.at_ns)
        tails[place : place + 1] = [row.at_ns]
    return tuple(sorted(rows, key=lambda row: row.at_ns)), len(rows) - len(tails)


def twins(rows: Iterable[TraceRow]) -> int:
    """How many rows say the same as an earlier one. They are requests of their own all the same."""
    seen = Counter(replace(row, line=0) for row in rows)
    return seen.total() - len(seen)


def _notes(problems: Sequence[Problem], rows: Sequence[TraceRow], moved: int) -> Iterable[str]:
    if problems:
        shown = "; ".join(f"{each.where}: {each.message}" for each in problems[:PROBLEMS_SHOWN])
        yield f"bad rows skipped: {len(problems)}: {shown}"
    if moved:
        early = next(row for before, row in pairwise(rows) if row.at_ns < before.at_ns)
        yield f"rows moved to their place in time: {moved}; line {early.line} is earlier than the one before it"
    repeated = twins(rows)
    if repeated:
        yield f"rows that say the same as an earlier one: {repeated}; each is a request of its own"
