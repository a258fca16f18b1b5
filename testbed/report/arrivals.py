"""Figure: how true the sends were to the schedule, as curves of both and as a histogram of the lags."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from testbed.metrics.analysis import Analysis
from testbed.metrics.drives import Drive
from testbed.metrics.requests import NS
from testbed.report.canvas import Theme, blank, dress, legend, titled
from testbed.report.wording import figure_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_POINTS = 400
LEAST_LAG_MS = 0.01
BINS_PER_DECADE = 8


def draw(analysis: Analysis, theme: Theme) -> "Figure":
    """Left: requests due and sent by each moment. Right: lags on a logarithmic axis, with the limit of their p99."""
    figure, (shape, lags) = blank(9.2, 2.9, 1, 2, width_ratios=[1.35, 1])
    colours = theme.colours([arm.name for arm in analysis.arms])
    for axes, title in ((shape, "requests due, and sent, by then"), (lags, "send lag")):
        dress(axes, theme)
        titled(axes, title, theme)
    for drive in analysis.drives:
        _curve(shape, drive, drive.due_ns, color=theme.grid, linewidth=4.5)
    for drive in analysis.drives:
        _curve(shape, drive, drive.sent_ns, color=colours[drive.arm], linewidth=1.0)
    shape.set_xlabel("seconds since the first was due")
    _histogram(lags, analysis.drives, colours)
    lags.axvline(analysis.run.manifest.send_lag_limit_s * 1000, color=theme.fault, linewidth=1.0, linestyle="--")
    lags.set_xlabel("ms from due to sent; dashed: the limit of the p99")
    legend(figure, _keys(colours, theme), theme, loc="outside upper left", ncols=min(7, len(colours) + 1))
    return figure


def _curve(axes: "Axes", drive: Drive, at_ns: Sequence[int], **style: Any) -> None:
    """The count of moments up to each of them, thinned where there are many."""
    if not at_ns:
        return
    every = -(-len(at_ns) // MOST_POINTS)
    places = sorted({*range(0, len(at_ns), every), len(at_ns) - 1})
    seconds = [(at_ns[place] - drive.due_ns[0]) / NS for place in places]
    axes.step(seconds, [place + 1 for place in places], where="post", **style)


def _histogram(axes: "Axes", drives: Sequence[Drive], colours: dict[str, str]) -> None:
    lags_ms = {arm: lags_of(drives, arm) for arm in colours}
    longest_ms = max((lags[-1] for lags in lags_ms.values() if lags), default=1.0)
    decades = [LEAST_LAG_MS * 10**power for power in range(_decades(longest_ms) + 1)]
    edges = np.geomspace(decades[0], decades[-1], (len(decades) - 1) * BINS_PER_DECADE + 1)
    axes.set_xscale("log")
    # Plain words: matplotlib's own powers of ten take longer to set than all the rest.
    axes.set_xticks(decades, [figure_number(one) for one in decades])
    axes.set_xticks([], minor=True)
    for arm, lags in lags_ms.items():
        counts, _ = np.histogram(np.clip(lags, LEAST_LAG_MS, None), edges)
        axes.stairs(counts, edges, color=colours[arm], linewidth=1.2)


def _decades(longest_ms: float) -> int:
    """Powers of ten from the least lag to one above the longest, and above the usual limit."""
    return max(4, math.ceil(math.log10(max(longest_ms, LEAST_LAG_MS) / LEAST_LAG_MS) + 1e-9))


def lags_of(drives: Sequence[Drive], arm: str) -> list[float]:
    """The lags of all repetitions of an arm in ms, the longest last."""
    return sorted(lag * 1000 for drive in drives if drive.arm == arm for lag in drive.lags_s)


def _keys(colours: dict[str, str], theme: Theme) -> list[Any]:
    from matplotlib.lines import Line2D

    return [
        Line2D([], [], color=theme.grid, linewidth=4.5, label="due"),
        *(Line2D([], [], color=colour, linewidth=1.2, label=f"sent, {name}") for name, colour in colours.items()),
    ]
