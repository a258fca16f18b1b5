"""When the requests of a trace are sent: as recorded, or spread over the quanta in which its clock ticked.

Requests that share a time stamp because the clock was coarse are a batch that nobody sent. Spreading each group over
the quantum that follows, evenly and by seed, is a repair that is stated, never made by itself.
"""

from collections.abc import Sequence
from itertools import groupby, pairwise

import numpy as np

from testbed.errors import SpecError
from testbed.spec.trace import Trace
from testbed.workload.streams import stream
from testbed.workload.trace.records import TraceRow

_TOLERANCE_RATIO = 0.01
"""Gaps between time stamps that are this near to whole quanta, measured in quanta, are whole quanta."""


def offsets_s(rows: Sequence[TraceRow], spec: Trace, *, where: str, name: str, seed: int) -> list[float]:
    """Seconds of each row after the first one, on the trace's own clock. `rows` are in order of time.

    A dequantised group keeps the order of the file, and stays before the next one.
    Raises: SpecError if the trace is to be dequantised and its time stamps come in no quanta.
    """
    if not rows:
        return []
    first_ns = rows[0].at_ns
    if spec.timing == "verbatim":
        return [(row.at_ns - first_ns) / 1e9 for row in rows]
    quantum_ns = round(spec.quantum * 1e9) if spec.quantum is not None else found_quantum_ns(rows, where=where)
    groups = [(at_ns, len(list(group))) for at_ns, group in groupby(rows, key=lambda row: row.at_ns)]
    ends = [at_ns for at_ns, _ in groups[1:]] + [groups[-1][0] + quantum_ns]
    spread: list[float] = []
    for (at_ns, count), next_ns in zip(groups, ends, strict=True):
        width_ns = min(quantum_ns, next_ns - at_ns)
        # A stream for each group, so that another part of the trace leaves this one as it is.
        draws = np.sort(stream(seed, name, "dequantise", at_ns - first_ns).uniform(size=count))
        spread += [(at_ns - first_ns + float(draw) * width_ns) / 1e9 for draw in draws]
    return spread


def found_quantum_ns(rows: Sequence[TraceRow], *, where: str) -> int:
    """The step of the clock that wrote the time stamps: the median gap, if all gaps are whole multiples of it.

    Raises: SpecError if they are not. `rows` are in order of time.
    """
    stamps = sorted({row.at_ns for row in rows})
    gaps = sorted(after - before for before, after in pairwise(stamps))
    if not gaps:
        raise SpecError(
            "all requests share one time stamp, so its quantum is unknown", where=where, hint="give quantum, such as 3s"
        )
    quantum = gaps[len(gaps) // 2]
    odd = [gap for gap in gaps if abs(gap / quantum - max(1, round(gap / quantum))) > _TOLERANCE_RATIO]
    if odd:
        raise SpecError(
            f"time stamps come in no quanta: gaps from {gaps[0] / 1e9:g} to {gaps[-1] / 1e9:g} s,"
            f" {len(odd)} of {len(gaps)} no multiple of {quantum / 1e9:g} s",
            where=where, hint="use timing: verbatim, or give the quantum",
        )
    return quantum


def within(offsets: Sequence[float], spec: Trace) -> slice:
    """Which of the offsets, which rise, lie in the window and below the limit."""
    begin = int(np.searchsorted(offsets, spec.window.begin, side="left"))
    end = len(offsets) if spec.window.end is None else int(np.searchsorted(offsets, spec.window.end, side="left"))
    last = end if spec.limit is None or spec.format == "sharegpt" else min(end, begin + spec.limit)
    return slice(begin, last)
