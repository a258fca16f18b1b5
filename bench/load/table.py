"""The table as Markdown."""

from collections.abc import Sequence

from bench.load.results import BenchResult, ToolResult, middle
from testbed.missing import Missing

_LAG = "lag at {}/s, p50 / p99 [ms]"
ROWS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("highest streamed rate with lag p99 <= 5 ms [requests/s]", ("highest_rps",), "{:,.0f}"),
    *((_LAG.format(rate), (f"lag_p50_ms_at_{rate}", f"lag_p99_ms_at_{rate}"), "{:,.2f}") for rate in (50, 100, 400)),
    ("CPU per 1,000 burst requests [s]", ("cpu_s_per_1000",), "{:.3f}"),
    ("CPU per chunk, paced, 64 chunks [us]", ("cpu_us_per_chunk",), "{:.1f}"),
    ("TTFT error, p50 / p99 [ms]", ("ttft_p50_error_ms", "ttft_p99_error_ms"), "{:+.2f}"),
    ("error of the time between tokens, p50 / p99 [ms]", ("gap_p50_error_ms", "gap_p99_error_ms"), "{:+.2f}"),
    ("memory per 100,000 requests [MiB]", ("mib_per_100k",), "{:,.0f}"),
    ("taken by other programs meanwhile [% of the machine]", ("others_percent",), "{:.0f}"),
)
"""Title, the lines that stand in the cell, and the form of a number."""


def markdown(result: BenchResult) -> str:
    """The whole page."""
    parts = [_HEAD, _machine(result)]
    for name, words in result.placements.items():
        here = [one for one in result.tools if one.placement == name]
        parts.append(f"## {name.capitalize()}: {words}\n\n" + "\n".join(_table(here)))
    parts.append(_notes(result))
    return "\n\n".join(parts) + "\n"


def _table(tools: Sequence[ToolResult]) -> list[str]:
    measured = [one for one in tools if one.repeats]
    lines = ["| | " + " | ".join(f"{one.tool} {one.version}" for one in measured) + " |"]
    lines.append("|---|" + "---|" * len(measured))
    lines.append("| runs | " + " | ".join(str(len(one.repeats)) for one in measured) + " |")
    for title, names, form in ROWS:
        cells = [[middle(one.repeats, name) for name in names] for one in measured]
        if any(not isinstance(value, Missing) for cell in cells for value in cell):
            lines.append(f"| {title} | " + " | ".join(_cell(cell, form) for cell in cells) + " |")
    return lines


def _cell(values: Sequence[float | Missing], form: str) -> str:
    if all(isinstance(value, Missing) for value in values):
        return "-"
    return " / ".join("-" if isinstance(value, Missing) else form.format(value) for value in values)


def _machine(result: BenchResult) -> str:
    facts = "; ".join(f"{name}: {value}" for name, value in result.machine.items())
    ceiling = (
        "" if result.stub_ceiling_rps is None
        else f" The stand-in serves {result.stub_ceiling_rps:,.0f} burst answers/s to a client that only reads "
        "(wrk), so it is not what limits a tool below that."
    )
    return f"Measured {result.created} with `{result.command}`. {facts}.{ceiling}"


def _notes(result: BenchResult) -> str:
    """Why a cell is empty, and which tools are not there."""
    lines = ["## What is missing, and why", ""]
    for one in result.tools:
        said = {} if one.problem is None else {one.problem: "not run"}
        for title, names, _ in ROWS:
            for name in names:
                value = middle(one.repeats, name) if one.repeats else None
                if isinstance(value, Missing) and value.reason != "not measured":
                    said.setdefault(value.reason, title)
        lines += [f"- {one.tool}, {one.placement}: {title}: {reason}" for reason, title in said.items()]
    return "\n".join(lines if len(lines) > 2 else [*lines, "Nothing."])


_HEAD = """# Load generators side by side

Each tool drives the same stand-in (`testbed/stub`), both in processes of their own, one run after the other. A figure
is the median of as many runs as the table names. `make bench-load` makes this page.

- A **burst** answer is 8 chunks in one write, at once; a **paced** one has 64 chunks, the first after 20 ms, then one
  each 5 ms.
- **Lag** is when the stand-in had the first byte minus when the tool meant to send. Ours is absolute: the schedule and
  the stamps are on one clock. The others do not tell their schedule on that clock, so theirs is against their own least
  late request: a lateness that all requests share can't be seen. inference-perf draws its gaps at random and tells them
  nobody: its lag is the one that it reports itself. locust has users, and no schedule.
- **CPU** and **memory** are differences between a long and a short run of the same tool, so without its start; of all
  its processes together. Memory is the most that they had.
- **Errors** are the tool's own figure minus the same figure of the stand-in's stamps, paced, at 25 requests/s. The time
  between tokens is of all gaps together, but the mean of each request for guidellm, which reports that.
- What **other programs** took of the machine is in the last row: where it is more than a few percent, times are theirs
  too."""
