"""Compare whole trace files with figures that were found by other means, every one to its last digit.

    python -m tools.check_traces [FOLDER [KNOWN.json]]

FOLDER is $TRACES_DIR, or ../shared/traces, unless it is given. Where it is not there by itself, there is nothing to do.
"""

import json
import os
import sys
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from testbed.errors import TestbedError
from testbed.experiment.traces import guess_format, read_trace, spec_as_recorded
from testbed.missing import Missing
from testbed.workload.trace.azure import parse_time_ns
from testbed.workload.trace.records import TraceRow
from testbed.workload.trace.stats import CacheStats, LengthStats, ReuseStats, TraceStats, rate_stats, trace_stats

KNOWN = Path("tests/fixtures/traces/known.json")
FOLDER = Path("../shared/traces")
WINDOWS_S = (10, 12, 60)
NOT_COMPARED = frozenset({"file", "git_blob_sha1", "unit", "resolution_us", "second_way_hit_blocks"})
"""What names a file, says the same again, or is the other way by which a figure was found."""


def figures(path: Path) -> dict[str, Any]:
    """What we say about a file, under the names of the known figures."""
    records = read_trace(spec_as_recorded(path, guess_format(path)), path)
    rows = records.rows
    stats = trace_stats(rows)
    found = {
        "bytes": path.stat().st_size, "sha256": records.sha256, "records": stats.requests,
        "input_tokens": _lengths(stats.input_tokens), "output_tokens": _lengths(stats.output_tokens),
        "timestamps": _timestamps(stats, rows, any("moved" in note for note in records.notes)), "rate": _rates(rows),
    }
    return found if isinstance(stats.reuse, Missing) else found | _reuse(stats.reuse, rows)


def _lengths(lengths: LengthStats) -> dict[str, Any]:
    names = ("sum", "sum_of_squares", "mean", "p50", "p95", "p99", "min", "max")
    return {name: getattr(lengths, name) for name in names}


def _timestamps(stats: TraceStats, rows: tuple[TraceRow, ...], moved: bool) -> dict[str, Any]:
    clock = stats.clock
    if isinstance(clock, Missing):
        return {}
    return {
        "first": rows[0].at_ns, "last": rows[-1].at_ns, "non_decreasing": not moved, "distinct": clock.distinct,
        "most_common_gaps_ms": [[gap_s * 1000, count] for gap_s, count in clock.common_gaps_s],
        "gap_min_ms": _times(clock.gap_min_s, 1000), "gap_max_ms": _times(clock.gap_max_s, 1000),
        "max_requests_at_one_timestamp": clock.max_at_one,
    }


def _times(value: float | Missing, factor: float) -> float | Missing:
    return value if isinstance(value, Missing) else value * factor


def _rates(rows: tuple[TraceRow, ...]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for window_s in WINDOWS_S:
        rate = rate_stats(rows, window_s)
        found |= {
            "span_s": rate.span_s, "mean_rps": rate.mean_rps, f"peak_rps_{window_s}s": rate.peak_rps,
            f"peak_count_{window_s}s": rate.peak_count, f"windows_{window_s}s": rate.windows,
            f"empty_windows_{window_s}s": rate.empty_windows,
        }
    return found


def _reuse(reuse: ReuseStats, rows: tuple[TraceRow, ...]) -> dict[str, Any]:
    return {
        "hash_ids_total": reuse.blocks, "hash_ids_distinct": reuse.distinct_blocks,
        "blocks_equal_ceil_input_over_512": all(len(row.ids) == -(-row.input_tokens // 512) for row in rows),
        "ids_repeated_inside_a_request": reuse.repeated_inside,
        "ids_with_two_different_predecessors": reuse.with_two_predecessors,
        "unlimited_cache": {
            "hit_tokens_capped_at_input_length": reuse.hit_tokens, "hit_ratio_of_tokens": reuse.hit_ratio,
            "mean_of_per_request_hit_ratio": reuse.mean_hit_ratio,
            "requests_with_no_hit": reuse.requests_without_hit, "requests_fully_hit": reuse.requests_fully_hit,
        },
        "lru": [_cache(cache) for cache in reuse.caches],
    }


def _cache(cache: CacheStats) -> dict[str, Any]:
    return {
        "capacity_tokens": cache.capacity_tokens, "capacity_blocks": cache.capacity_blocks,
        "hit_blocks": cache.hit_blocks, "hit_ratio_of_blocks": cache.hit_ratio,
        "share_of_unlimited": cache.share_of_endless, "evictions": cache.evictions, "final_blocks": cache.final_blocks,
    }


def differences(known: Any, found: Any, path: str) -> Iterator[str]:
    """Each known figure that ours is not, to the last digit that is known."""
    if isinstance(known, Mapping):
        for name in known.keys() - NOT_COMPARED:
            if not isinstance(found, Mapping) or name not in found:
                yield f"{path}.{name}: known to be {known[name]}, not found"
            else:
                yield from differences(known[name], found[name], f"{path}.{name}")
    elif isinstance(known, list):
        if not isinstance(found, list) or len(found) != len(known):
            yield f"{path}: known to be {known}, found {found}"
        else:
            for number, (one, other) in enumerate(zip(known, found, strict=True)):
                yield from differences(one, other, f"{path}[{number}]")
    elif not _same(known, found):
        yield f"{path}: known to be {known}, found {found}"


def _same(known: Any, found: Any) -> bool:
    if isinstance(known, str) and isinstance(found, int):
        return parse_time_ns(known) == found
    if isinstance(known, bool) or not isinstance(known, int | Decimal) or not isinstance(found, int | float):
        return bool(known == found)
    exponent = known.as_tuple().exponent if isinstance(known, Decimal) else 0
    last_digit = Decimal(1).scaleb(exponent) if isinstance(exponent, int) else Decimal(0)
    slack = last_digit / 2 if isinstance(known, Decimal) else Decimal("1e-6")
    return abs(Decimal(found) - known) <= slack * Decimal("1.000001")


def compare(folder: Path, known: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """What was compared, and what differs. Files that are known but not there are told, and are no difference."""
    done: list[str] = []
    wrong: list[str] = []
    for name, expected in known["traces"].items():
        path = folder / expected["file"]
        if not path.is_file() or "records" not in expected:
            done.append(f"{name}: not there, not compared")
            continue
        found = list(differences(_plain(expected), figures(path), name))
        done.append(f"{name}: {expected['records']} requests, {len(found)} differences")
        wrong += found
    return done, sorted(wrong)


def _plain(expected: Mapping[str, Any]) -> dict[str, Any]:
    """The known figures without those of other cache rules, and without what is null; times of Mooncake in ns."""
    kept = {name: value for name, value in expected.items() if name != "lru_variants_hit_blocks"}
    stamps = {name: value for name, value in kept["timestamps"].items() if value is not None}
    for name in ("first", "last"):
        stamps[name] = stamps[name] * 1_000_000 if isinstance(stamps[name], int) else stamps[name]
    return kept | {"timestamps": stamps}


def main(arguments: list[str]) -> int:
    """Print what was compared and what differs; 1 if anything does, 2 for a folder that is not there."""
    asked = arguments[0] if arguments else os.environ.get("TRACES_DIR")
    folder = FOLDER if asked is None else Path(asked)
    if not folder.is_dir():
        print(f"check-traces: there is no folder {folder}, so there is nothing to compare")
        return 0 if asked is None else 2
    known = json.loads((Path(arguments[1]) if len(arguments) > 1 else KNOWN).read_text(), parse_float=Decimal)
    try:
        done, wrong = compare(folder, known)
    except TestbedError as problem:
        print(f"check-traces: {problem}")
        return 1
    print("\n".join(f"check-traces: {line}" for line in (*done, *wrong)))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
