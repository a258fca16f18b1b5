"""Mooncake's JSONL: an object a line, with a time, two lengths, and one id for each block of the prompt.

An id stands for its block and all before it. The last block is mostly partial and has an id all the same.
"""

import msgspec

from testbed.spec.trace import TimeUnit
from testbed.spec.tree import Problem
from testbed.workload.trace.records import Reading, TraceRow, numbered_lines

_NS = {"ms": 1_000_000, "s": 1_000_000_000}
SUSPECT_RPS = 1000.0
"""No recorded service had so many requests a second; a file with more was mostly meant in another unit."""


class _Line(msgspec.Struct, frozen=True):
    """The keys that are read; others may stand beside them."""

    timestamp: int | float
    input_length: int
    output_length: int
    hash_ids: list[int]


def read_mooncake(text: str, *, where: str, unit: TimeUnit = "ms", block_tokens: int = 512) -> Reading:
    """All rows, and a problem for each line that is none."""
    decoder = msgspec.json.Decoder(_Line)
    rows: list[TraceRow] = []
    problems: list[Problem] = []
    for number, line in numbered_lines(text):
        try:
            found = decoder.decode(line)
        except msgspec.MsgspecError as problem:
            problems.append(Problem(f"{where}:{number}", f"is not a request: {problem}"))
            continue
        wrong = _wrong(found, block_tokens)
        if wrong is None:
            rows.append(_row(number, found, unit, block_tokens))
        else:
            problems.append(Problem(f"{where}:{number}", wrong))
    return Reading(tuple(rows), tuple(problems))


def unit_warning(rows: tuple[TraceRow, ...], unit: TimeUnit) -> str | None:
    """Seconds that stand in a file of milliseconds make a burst that nobody recorded; None where all looks right.

    `rows` are in order of time.
    """
    span_s = (rows[-1].at_ns - rows[0].at_ns) / 1e9 if rows else 0.0
    if unit == "s" or span_s == 0.0 or (len(rows) - 1) / span_s <= SUSPECT_RPS:
        return None
    gap_ms = span_s * 1000 / (len(rows) - 1)
    return (
        f"time stamps read as ms: {len(rows)} requests in {span_s * 1000:g} ms, one every {gap_ms:.4g} ms"
        f" ({1000 / gap_ms:.4g} a second); as seconds they are {span_s * 1000:g} s, one every {gap_ms:.4g} s:"
        " if that is meant, say time_unit: s"
    )


def _wrong(line: _Line, block_tokens: int) -> str | None:
    """What is wrong with a line that has all its keys."""
    for name in ("input_length", "output_length"):
        if getattr(line, name) < 1:
            return f"{name} is {getattr(line, name)}; must be at least 1"
    if line.timestamp < 0:
        return f"timestamp is {line.timestamp}; must not be negative"
    wanted = -(-line.input_length // block_tokens)
    if len(line.hash_ids) != wanted:
        return (
            f"{line.input_length} tokens need {wanted} id{'s' if wanted > 1 else ''} of {block_tokens} tokens,"
            f" {len(line.hash_ids)} given"
        )
    return None


def _row(number: int, line: _Line, unit: TimeUnit, block_tokens: int) -> TraceRow:
    whole_ends = range(block_tokens, line.input_length, block_tokens)
    return TraceRow(
        number, round(line.timestamp * _NS[unit]), line.input_length, line.output_length,
        ids=tuple(line.hash_ids), ends=(*whole_ends, line.input_length),
    )
