"""Figure: every request of every arm on one axis of time, with what was done to it."""

from typing import TYPE_CHECKING, Any

from testbed.journal.events import ArmBegan, FaultApplied
from testbed.metrics.analysis import Analysis
from testbed.metrics.requests import NS
from testbed.metrics.views import RequestView
from testbed.report.canvas import Theme, blank, dress, legend, titled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_SHOWN = 400


def draw(analysis: Analysis, theme: Theme) -> "Figure":
    """One panel an arm; a request is a line from its scheduled moment to its end, thick from the first token on."""
    arms = [arm.name for arm in analysis.arms]
    figure, panels = blank(9.2, 0.9 + 1.55 * len(arms), len(arms), 1, sharex=True)
    colours = theme.colours(analysis.classes)
    for axes, arm in zip(panels, arms, strict=True):
        dress(axes, theme)
        zero_ns = _zero_ns(analysis, arm)
        shown, every = _shown(analysis, arm)
        _requests(axes, shown, zero_ns, colours, theme)
        _holds(axes, analysis, arm, {view.row.request_id: row for row, view in enumerate(shown)}, theme)
        titled(axes, arm if every == 1 else f"{arm} (1 request in {every} is shown, and all that were struck)", theme)
        axes.set_yticks([])
        axes.set_ylim(len(shown), -1)
    panels[-1].set_xlabel("seconds since the first moment of the arm's schedule")
    legend(figure, _keys(colours, theme), theme, loc="outside upper left", ncols=len(colours) + 4)
    return figure


def _zero_ns(analysis: Analysis, arm: str) -> dict[int, int]:
    """The zero of each repetition: repetitions lie upon each other."""
    return {event.repetition: event.zero_at_ns for event in analysis.run.journal.select(ArmBegan, arm)}


def _struck(analysis: Analysis, arm: str) -> set[str]:
    return {event.request_id for (name, _), events in analysis.applied.items() if name == arm for event in events}


def _shown(analysis: Analysis, arm: str) -> tuple[list[RequestView], int]:
    """The requests to draw, by class and time, and how many each stands for."""
    views = [view for view in analysis.in_arm(arm) if view.row.ended is not None]
    every = -(-len(views) // MOST_SHOWN) if views else 1
    struck = _struck(analysis, arm)
    kept = [view for k, view in enumerate(views) if k % every == 0 or view.row.request_id in struck]
    return sorted(kept, key=lambda view: (view.row.traffic_class, view.row.planned.scheduled_at_s)), every


def _requests(
    axes: "Axes", views: list[RequestView], zero_ns: dict[int, int], colours: dict[str, str], theme: Theme,
) -> None:
    from matplotlib.collections import LineCollection

    waits, streams, ink, lost = [], [], [], []
    for row, view in enumerate(views):
        ended = view.row.ended
        if ended is None:
            continue
        zero = zero_ns.get(view.row.repetition, ended.scheduled_at_ns)
        due, end = (ended.scheduled_at_ns - zero) / NS, (ended.ended_at_ns - zero) / NS
        first = end if ended.first_token_at_ns is None else (ended.first_token_at_ns - zero) / NS
        waits.append([(due, row), (first, row)])
        streams.append([(first, row), (end, row)])
        ink.append(colours[view.row.traffic_class])
        if not view.row.ok:
            lost.append((end, row))
    axes.add_collection(LineCollection(waits, colors=ink, linewidths=0.8, alpha=0.75))
    axes.add_collection(LineCollection(streams, colors=ink, linewidths=2.2, capstyle="butt"))
    if lost:
        axes.plot(*zip(*lost, strict=True), "x", color=theme.fault, markersize=5, markeredgewidth=1.4)
    axes.autoscale_view()


def _holds(axes: "Axes", analysis: Analysis, arm: str, rows: dict[str, int], theme: Theme) -> None:
    """Shade while a fault acts on a request, and mark each failed load."""
    zero_ns = _zero_ns(analysis, arm)
    began: dict[tuple[str, str], float] = {}
    for event in analysis.run.journal.select(FaultApplied, arm):
        at_s = (event.at_ns - zero_ns.get(event.repetition, event.at_ns)) / NS
        key = (event.fault, event.request_id)
        if event.phase == "began":
            began[key] = at_s
        elif key in began and event.request_id in rows:
            row = rows[event.request_id]
            axes.axvspan(began[key], at_s, color=theme.fault, alpha=0.12, linewidth=0)
            axes.plot([began[key], at_s], [row, row], color=theme.fault, linewidth=2.2, solid_capstyle="butt")
    failed = [
        ((load.ended_at_ns - zero_ns[0]) / NS, rows[load.request_id])
        for load in analysis.loads
        if load.arm == arm and not load.ok and load.request_id in rows and 0 in zero_ns
    ]
    if failed:
        axes.plot(*zip(*failed, strict=True), "v", color=theme.fault, markersize=4.5, linestyle="none")


def _keys(colours: dict[str, str], theme: Theme) -> list[Any]:
    from matplotlib.lines import Line2D

    return [
        *(Line2D([], [], color=colour, linewidth=2.2, label=name) for name, colour in colours.items()),
        Line2D([], [], color=theme.faint, linewidth=0.8, label="waits for its first token"),
        Line2D([], [], color=theme.fault, linewidth=2.2, label="fault acts"),
        Line2D([], [], color=theme.fault, marker="v", linestyle="none", markersize=4.5, label="load failed"),
        Line2D([], [], color=theme.fault, marker="x", linestyle="none", markersize=5, label="no complete answer"),
    ]
