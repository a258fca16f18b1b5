"""Azure's CSV: a date and time to the tenth of a microsecond, tokens in, tokens out. It knows nothing of prefixes."""

import re
from datetime import UTC, datetime, timedelta

from testbed.spec.tree import Problem
from testbed.workload.trace.records import Reading, TraceRow, numbered_lines

COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)?", re.ASCII)
_WHOLE = re.compile(r"[+-]?\d{1,18}", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def read_azure(text: str, *, where: str) -> Reading:
    """All rows, and a problem for each line that is none. Columns are found by their names in the first line."""
    lines = numbered_lines(text)
    if not lines:
        return Reading()
    (first, header), *rest = lines
    names = [name.strip().lower() for name in header.split(",")]
    absent = [name for name in COLUMNS if name.lower() not in names]
    if absent:
        message = f"has no column {', '.join(absent)} in its first line"
        return Reading(problems=(Problem(f"{where}:{first}", message, f"it must be {','.join(COLUMNS)}"),))
    places = [names.index(name.lower()) for name in COLUMNS]
    read = [_row(number, line.split(","), places, len(names)) for number, line in rest]
    return Reading(
        rows=tuple(row for row in read if isinstance(row, TraceRow)),
        problems=tuple(
            Problem(f"{where}:{number}", row) for (number, _), row in zip(rest, read, strict=True)
            if isinstance(row, str)
        ),
    )


def parse_time_ns(text: str) -> int | None:
    """Nanoseconds since 1970 of "2023-11-16 18:15:46.6805900", every digit kept; None for what is no such time.

    Without a zone it is taken for UTC: only differences count.
    """
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    day, clock, fraction, zone = match.groups()
    try:
        moment = datetime.fromisoformat(f"{day}T{clock}{zone if zone else 'Z'}")
    except ValueError:  # a thirteenth month
        return None
    return (moment - _EPOCH) // timedelta(seconds=1) * 1_000_000_000 + int((fraction or "").ljust(9, "0"))


def _row(number: int, cells: list[str], places: list[int], width: int) -> TraceRow | str:
    """The row, or what is wrong with it."""
    if len(cells) != width:
        return f"has {len(cells)} fields; the first line has {width}"
    time, *counts = (cells[place].strip() for place in places)
    at_ns = parse_time_ns(time)
    if at_ns is None:
        return f'TIMESTAMP is "{time}"; must be like 2023-11-16 18:15:46.6805900'
    for name, count in zip(COLUMNS[1:], counts, strict=True):
        if not _WHOLE.fullmatch(count):
            return f'{name} is "{count}"; must be a whole number'
        if int(count) < 1:
            return f"{name} is {count}; must be at least 1"
    return TraceRow(number, at_ns, int(counts[0]), int(counts[1]))
