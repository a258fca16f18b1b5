"""The figures as a page."""

from collections.abc import Mapping
from typing import Any

HEAD = """# Proxies side by side

Each proxy stands before the same stand-in engine, whose answers are 8 chunks, the first after 2 ms, then one each 2 ms.
The proxy has one core for itself; client and engine share another, with and without a proxy. A figure is the median of
the rounds, in which all take turns; what a proxy **adds** is the difference to the direct way within the same round.
**First event** is at 100 requests a second. **Streams** are of 64 connections that send again at once, so that client
and engine, on their one core, may be what limits them: **CPU** is what the proxy itself takes for a stream, and **one
core** the streams that one second of it carries. **Broken** are connections that were closed, **not sent** requests
that found none of the 64 connections free. Ours writes its journal meanwhile, three events a request.
`make bench-router` makes this page.
"""
COLUMNS: tuple[tuple[str, str, str], ...] = (
    ("first event p50 [ms]", "first_p50_ms", "{:.2f}"), ("p99 [ms]", "first_p99_ms", "{:.2f}"),
    ("added p50 [ms]", "added_p50_ms", "{:+.2f}"), ("added p99 [ms]", "added_p99_ms", "{:+.2f}"),
    ("streams/s", "streams_per_s", "{:,.0f}"), ("of direct", "streams_ratio", "{:.2f}"),
    ("CPU [us]", "cpu_us", "{:.0f}"), ("one core [streams/s]", "one_core", "{:,.0f}"), ("broken", "broken", "{}"),
    ("not sent", "not_sent", "{}"),
)


def markdown(figures: Mapping[str, Any]) -> str:
    """The whole page."""
    facts = "; ".join(f"{name}: {value}" for name, value in figures["machine"].items())
    lines = [
        HEAD,
        f"Measured {figures['created']}; {figures['rounds']} rounds of twice {figures['seconds']:g} s. {facts}.", "",
        "| | " + " | ".join(title for title, _, _ in COLUMNS) + " |", "|---|" + "---|" * len(COLUMNS),
    ]
    for name, way in figures["ways"].items():
        label = name if way["version"] == "-" else f"{name} {way['version']}"
        lines.append(f"| {label} | " + " | ".join(_cells(way)) + " |")
    missing = [f"- {name}: {way['problem']}" for name, way in figures["ways"].items() if way["problem"]]
    return "\n".join([*lines, *(["", "Not measured:", "", *missing] if missing else [])]) + "\n"


def _cells(way: Mapping[str, Any]) -> list[str]:
    if way["problem"]:
        return ["-"] * len(COLUMNS)
    cpu_us = way["cpu_us"]
    values = {**way, "one_core": 1e6 / cpu_us if cpu_us else None}
    return ["-" if values[key] is None else form.format(values[key]) for _, key, form in COLUMNS]
