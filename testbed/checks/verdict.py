"""PASS, FAIL or UNKNOWN, with what shows it. A check that saw nothing to check never says PASS."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Status = Literal["PASS", "FAIL", "UNKNOWN"]
MOST_EVIDENCE = 20


@dataclass(frozen=True)
class Verdict:
    """The answer of one check. FAIL: a claim of the run is false. UNKNOWN: nobody can tell, so the run is invalid."""

    check: str
    status: Status
    text: str
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True)
class Finding:
    """What a check found; the runner puts its name to it."""

    status: Status
    text: str
    evidence: tuple[str, ...] = ()


def passed(text: str, evidence: Sequence[str] = ()) -> Finding:
    """It holds."""
    return Finding("PASS", text, _cut(evidence))


def failed(text: str, evidence: Sequence[str] = ()) -> Finding:
    """It does not hold."""
    return Finding("FAIL", text, _cut(evidence))


def unknown(text: str, evidence: Sequence[str] = ()) -> Finding:
    """Nobody can tell, so the run is not valid."""
    return Finding("UNKNOWN", text, _cut(evidence))


def _cut(evidence: Sequence[str]) -> tuple[str, ...]:
    """The first lines, and how many more there are."""
    if len(evidence) <= MOST_EVIDENCE:
        return tuple(evidence)
    return (*evidence[:MOST_EVIDENCE], f"and {len(evidence) - MOST_EVIDENCE} more")


def times(count: int, noun: str) -> str:
    """`1 load`, `2 loads`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
