"""The figures of a trace for a reader, and for a program."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from testbed.missing import Missing
from testbed.workload.trace.stats import CacheStats, LengthStats, ReuseStats, TraceStats

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table


@dataclass(frozen=True)
class Told:
    """A trace's figures with what they are of. `notes` and `warnings` are what its reader had to say."""

    name: str
    file_format: str
    sha256: str
    stats: TraceStats
    notes: Sequence[str] = ()
    warnings: Sequence[str] = ()


def as_json(told: Told) -> str:
    """All figures; what is missing is null, with the reason under `missing`."""
    missing: dict[str, str] = {}
    body = {
        "file": told.name, "format": told.file_format, "sha256": told.sha256, **_plain(told.stats, "", missing),
        "notes": list(told.notes), "warnings": list(told.warnings), "missing": missing,
    }
    return json.dumps(body, indent=1, allow_nan=False)


def _plain(value: Any, path: str, missing: dict[str, str]) -> Any:
    """Values that JSON has; notes the reasons of those that are not there."""
    if isinstance(value, Missing):
        missing[path] = value.reason
        return None
    if hasattr(value, "__dataclass_fields__"):
        return {name: _plain(getattr(value, name), f"{path}.{name}".strip("."), missing) for name in asdict(value)}
    if isinstance(value, list | tuple):
        return [_plain(one, f"{path}[{index}]", missing) for index, one in enumerate(value)]
    return value


def as_table(told: Told) -> "Group":
    """Print this with rich."""
    from rich.console import Group
    from rich.text import Text

    stats = told.stats
    parts: list[Text | Table] = [Text(f"{told.name}: {stats.requests} requests ({told.file_format})")]
    parts += [Text(f"note: {note}") for note in told.notes]
    parts.append(_lengths_table(stats))
    parts += [Text(line) for line in (*_rate_lines(stats), *_reuse_lines(stats.reuse, told.file_format))]
    if not isinstance(stats.reuse, Missing) and len(stats.reuse.caches) > 1:
        parts.append(_cache_table(stats.reuse))
    return Group(*parts)


def _table(*titles: str) -> "Table":
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in titles:
        table.add_column(title, justify="left" if title == titles[0] else "right")
    return table


def _lengths_table(stats: TraceStats) -> "Table":
    table = _table("tokens", "mean", "p50", "p95", "p99", "min", "max")
    for name, lengths in (("prompt", stats.input_tokens), ("answer", stats.output_tokens)):
        table.add_row(name, *_cells(lengths))
    return table


def _cells(lengths: LengthStats) -> Iterator[str]:
    values = (lengths.mean, lengths.p50, lengths.p95, lengths.p99, lengths.min, lengths.max)
    return (_number(value) for value in values)


def _rate_lines(stats: TraceStats) -> Iterator[str]:
    rate, clock = stats.rate, stats.clock
    if isinstance(rate, Missing) or isinstance(clock, Missing):
        yield f"rate: {rate}"
        return
    yield f"span {_number(rate.span_s)} s, mean rate {_number(rate.mean_rps)} requests/s"
    yield (
        f"peak {rate.peak_rps:g} requests/s: {rate.peak_count} in one of {rate.windows} windows of {rate.window_s:g} s,"
        f" {rate.empty_windows} of them empty"
    )
    yield (
        f"{clock.distinct} distinct time stamps, at most {clock.max_at_one} requests at one;"
        f" gaps from {_number(clock.gap_min_s)} to {_number(clock.gap_max_s)} s"
    )


def _reuse_lines(reuse: ReuseStats | Missing, file_format: str) -> Iterator[str]:
    if isinstance(reuse, Missing):
        yield f"reuse: {reuse}"
        return
    parts = "blocks" if file_format == "mooncake" else "pieces of prompts"
    yield f"{reuse.blocks} {parts}, {reuse.distinct_blocks} of them distinct"
    yield (
        f"an endless cache finds {reuse.hit_tokens} prompt tokens, {reuse.hit_ratio:.2%};"
        f" requests that find nothing: {reuse.requests_without_hit}, all of their prompt: {reuse.requests_fully_hit}"
    )
    if reuse.common_first is not None:
        yield f"all requests begin with block {reuse.common_first}"
    if reuse.repeated_inside or reuse.with_two_predecessors:
        yield (
            f"ids that do not stand for all before them: {reuse.with_two_predecessors} follow different blocks,"
            f" {reuse.repeated_inside} come again inside a prompt"
        )


def _cache_table(reuse: ReuseStats) -> "Table":
    table = _table("LRU, tokens", "blocks", "hit blocks", "of all", "of endless", "without the first")
    for cache in reuse.caches:
        table.add_row(*_cache_row(cache))
    return table


def _cache_row(cache: CacheStats) -> Iterable[str]:
    share = cache.share_of_endless
    return (
        "endless" if cache.capacity_tokens is None else f"{cache.capacity_tokens:,}",
        "-" if cache.capacity_blocks is None else f"{cache.capacity_blocks:,}",
        f"{cache.hit_blocks:,}",
        f"{cache.hit_ratio:.2%}",
        "-" if isinstance(share, Missing) else f"{share:.2%}",
        "-" if isinstance(cache.hit_blocks_without_first, Missing) else f"{cache.hit_blocks_without_first:,}",
    )


def _number(value: float | Missing) -> str:
    """Whole numbers with their digits in groups, others with what is worth reading; a reason where there is none."""
    if isinstance(value, Missing):
        return "-"
    return f"{value:,.0f}" if value == int(value) else f"{value:,.2f}" if abs(value) >= 10 else f"{value:.4g}"
