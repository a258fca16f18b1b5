"""What a whole bench found: kept as JSON beside the table, so that the table can be made again."""

from collections.abc import Sequence
from pathlib import Path
from statistics import median

import msgspec

from testbed.missing import Missing


class ToolResult(msgspec.Struct, kw_only=True):
    """One tool in one placement. A repeat has a number for each line, or in words why there is none."""

    tool: str
    version: str
    placement: str
    gap: str
    repeats: list[dict[str, float | str]] = []
    problem: str | None = None


class BenchResult(msgspec.Struct, kw_only=True):
    """All tools, on what and how they ran; `stub_ceiling_rps` is what the stand-in serves to one that only reads."""

    created: str
    machine: dict[str, str]
    command: str
    placements: dict[str, str]
    stub_ceiling_rps: float | None
    tools: list[ToolResult]


def write(path: Path, result: BenchResult) -> None:
    """Keep it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(result)) + b"\n")


def read(path: Path) -> BenchResult:
    """Read it again."""
    return msgspec.json.decode(path.read_bytes(), type=BenchResult)


def middle(repeats: Sequence[dict[str, float | str]], line: str) -> float | Missing:
    """The median of the repeats that have a number for `line`; if most have none, why."""
    found = [one[line] for one in repeats if line in one]
    numbers = [value for value in found if not isinstance(value, str)]
    words = [value for value in found if isinstance(value, str)]
    if numbers and len(numbers) >= len(words):
        return median(numbers)
    problems = [str(one["problem"]) for one in repeats if "problem" in one]
    return Missing(words[0] if words else problems[0] if problems else "not measured")
