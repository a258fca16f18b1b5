"""Our own journal as a trace: what a run planned to send, when it was due, and what its prompts had in common.

A journal has no tokens of prompts, but it says which were equal, which turn follows which, which document was asked,
and how long a prefix each shares with what came before. From that the prompts' shape is rebuilt in pieces.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from testbed.workload.trace.records import Reading, TraceRow


class Planned(Protocol):
    """What is read of a `request_planned` event."""

    @property
    def request_id(self) -> str: ...
    @property
    def traffic_class(self) -> str: ...
    @property
    def scheduled_at_s(self) -> float: ...
    @property
    def prompt_tokens(self) -> int: ...
    @property
    def max_tokens(self) -> int: ...
    @property
    def stop(self) -> str: ...
    @property
    def prompt_key(self) -> str: ...
    @property
    def measured(self) -> bool: ...
    @property
    def document(self) -> int | None: ...
    @property
    def session(self) -> int | None: ...
    @property
    def turn(self) -> int | None: ...
    @property
    def hit_tokens(self) -> int | None: ...


def replay(planned: Sequence[Planned], due_s: Mapping[str, float]) -> Reading:
    """The measured requests of one arm. `due_s` is when each that was sent was due: a turn that waits for an answer is
    due only then. Units: seconds from the zero of the arm.
    """
    measured = sorted((one for one in planned if one.measured), key=lambda one: one.scheduled_at_s)
    shape = _Shape(_shared_tokens(measured))
    return Reading(tuple(_row(number, one, due_s, shape) for number, one in enumerate(measured, start=1)))


def _row(number: int, one: Planned, due_s: Mapping[str, float], shape: "_Shape") -> TraceRow:
    ids, ends = shape.pieces(one)
    return TraceRow(
        number, round(due_s.get(one.request_id, one.scheduled_at_s) * 1e9), one.prompt_tokens, one.max_tokens,
        ids, ends, session=one.session, turn=one.turn, traffic_class=one.traffic_class,
        stop="forced" if one.stop == "forced" else "natural",
    )


Group = tuple[Hashable, ...]


def _groups(one: Planned) -> tuple[Group, ...]:
    """What the beginning of a prompt may be shared with, the widest first."""
    of_class: Group = ("class", one.traffic_class)
    return (of_class,) if one.document is None else (of_class, (*of_class, "document", one.document))


def _shared_tokens(measured: Iterable[Planned]) -> dict[Group, int]:
    """How long the prefix is that all members of a group share: the shortest hit of its later members.

    A later turn hits the turn before it, which is longer than that. An unknown hit may be none at all.
    """
    hits: dict[Group, list[int]] = defaultdict(list)
    for one in measured:
        for group in _groups(one):
            hits[group].append(0 if one.hit_tokens is None else one.hit_tokens)
    return {group: min(of_group[1:], default=0) for group, of_group in hits.items()}


@dataclass(frozen=True)
class _Shape:
    """Turns requests into pieces, and remembers where the turns of each session ended."""

    shared: Mapping[Group, int]
    numbers: dict[Hashable, int] = field(default_factory=dict)
    turns: dict[Hashable, list[tuple[Hashable, int]]] = field(default_factory=dict)

    def pieces(self, one: Planned) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Ids and ends of one prompt: class, document, the earlier turns, and what is its own."""
        wanted: list[tuple[Hashable, int]] = [
            (group, self.shared[group]) for group in _groups(one) if group in self.shared
        ]
        if one.session is not None:
            earlier = self.turns.setdefault((one.traffic_class, one.session), [])
            wanted += earlier
            earlier.append((("prompt", one.prompt_key), one.prompt_tokens))
        ids: list[int] = []
        ends: list[int] = []
        for name, end in [*wanted, (("prompt", one.prompt_key), one.prompt_tokens)]:
            if (ends[-1] if ends else 0) < end <= one.prompt_tokens:
                ids.append(self.numbers.setdefault(name, len(self.numbers)))
                ends.append(end)
        return tuple(ids), tuple(ends)
