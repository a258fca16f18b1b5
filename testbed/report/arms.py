"""Figure: the arms side by side, by first token, by recomputed tokens, and by goodput."""

from typing import TYPE_CHECKING, Any

from testbed.metrics.analysis import Analysis
from testbed.metrics.table import Row
from testbed.metrics.views import ALL_CLASSES
from testbed.missing import Missing
from testbed.report.canvas import Theme, blank, dress, legend, titled
from testbed.report.wording import figure_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw(analysis: Analysis, rows: list[Row], theme: Theme) -> "Figure":
    """Horizontal bars with 95 % intervals; where there is no value the bar says so."""
    arms = [arm.name for arm in analysis.arms]
    figure, panels = blank(9.2, 1.3 + 0.46 * len(arms), 1, 3, sharey=True, width_ratios=[1.5, 1, 1])
    colours = theme.colours(analysis.classes)
    titles = ("TTFT p50, seconds", "recomputed after failed loads", "goodput ratio")
    for axes, title in zip(panels, titles, strict=True):
        dress(axes, theme)
        titled(axes, title, theme)
    share = 0.8 / max(1, len(colours))
    for k, (name, colour) in enumerate(colours.items()):
        shift = (k - (len(colours) - 1) / 2) * share
        for place, arm in enumerate(arms):
            _bar(panels[0], place + shift, share * 0.9, _find(rows, "ttft_s", name, arm, "p50"), (colour, theme))
    for place, arm in enumerate(arms):
        tokens = _find(rows, "recomputed_after_failure_tokens", ALL_CLASSES, arm, "total")
        _bar(panels[1], place, 0.55, tokens, (theme.fault, theme))
        _bar(panels[2], place, 0.55, _find(rows, "goodput_ratio", ALL_CLASSES, arm, "share"), (theme.faint, theme))
    panels[0].set_yticks(range(len(arms)), arms)
    panels[0].set_ylim(len(arms) - 0.4, -0.6)
    panels[1].set_xlabel("tokens")
    panels[2].set_xlabel("good ÷ planned")
    for axes in panels:
        axes.set_xlim(0, axes.get_xlim()[1] * 1.3)
    panels[2].set_xlim(0, 1.35)
    panels[2].set_xticks([0, 0.5, 1])
    legend(figure, _keys(colours), theme, loc="outside upper left", ncols=len(colours))
    return figure


def _find(rows: list[Row], metric: str, traffic_class: str, arm: str, statistic: str) -> Row:
    key = (metric, traffic_class, arm, statistic)
    return next(row for row in rows if (row.metric, row.traffic_class, row.arm, row.statistic) == key)


def _bar(axes: "Axes", place: float, height: float, row: Row, colours: tuple[str, Theme]) -> None:
    colour, theme = colours
    if isinstance(row.value, Missing):
        axes.annotate(
            "no value", (0, place), xytext=(3, 0), textcoords="offset points", va="center", fontsize=7,
            color=theme.faint, style="italic",
        )
        return
    axes.barh(place, row.value, height=height, color=colour)
    end = row.value
    if not isinstance(row.low, Missing) and not isinstance(row.high, Missing):
        axes.plot([row.low, row.high], [place, place], color=theme.ink, linewidth=1.0, marker="|", markersize=4)
        end = max(end, row.high)
    axes.annotate(
        figure_number(row.value), (end, place), xytext=(4, 0), textcoords="offset points", va="center", fontsize=7,
        color=theme.ink,
    )


def _keys(colours: dict[str, str]) -> list[Any]:
    from matplotlib.patches import Patch

    return [Patch(color=colour, label=name) for name, colour in colours.items()]
