"""Figure: where the prompt tokens of each arm came from, and what was computed beside them."""

from typing import TYPE_CHECKING, Any

from testbed.metrics.analysis import Analysis
from testbed.metrics.ledger import Ledger
from testbed.report.canvas import Theme, blank, dress, legend
from testbed.report.wording import figure_number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PARTS = (
    ("held by the engine", "#009E73", ""),
    ("loaded from the tier", "#0072B2", ""),
    ("computed", "#B8BEC5", ""),
    ("computed because a load failed", "#D55E00", "///"),
    ("computed again", "#CC79A7", "xxx"),
)


def parts_of(analysis: Analysis, arm: str) -> tuple[int, ...]:
    """Tokens of each part, in the order of `PARTS`, summed over the requests of one arm.

    The first four are final sources and add up to the prompts; the last is work beyond them.
    """
    found = [view.ledger for view in analysis.in_arm(arm) if isinstance(view.ledger, Ledger)]
    failed = sum(one.recomputed_after_failure - one.repeated_after_failure for one in found)
    again = sum(
        one.repeated_after_failure + one.recomputed_after_preemption + one.recomputed_last_token for one in found
    )
    computed = sum(one.computed for one in found)
    return sum(one.local for one in found), sum(one.loaded for one in found), computed - failed, failed, again


def draw(analysis: Analysis, theme: Theme) -> "Figure":
    """Stacked bars; an arm without a probe is marked, for its counters tell less."""
    arms = [arm.name if arm.probed else f"{arm.name}\n(counters)" for arm in analysis.arms]
    figure, (axes,) = blank(9.2, 1.15 + 0.42 * len(arms), 1, 1)
    dress(axes, theme)
    for place, arm in enumerate(analysis.arms):
        left = 0
        for tokens, (_, colour, hatch) in zip(parts_of(analysis, arm.name), PARTS, strict=True):
            if tokens:
                axes.barh(
                    place, tokens, left=left, height=0.6, color=colour, hatch=hatch, edgecolor="white", linewidth=0.4,
                )
                left += tokens
        axes.annotate(
            figure_number(left), (left, place), xytext=(4, 0), textcoords="offset points", va="center", fontsize=7,
            color=theme.ink,
        )
    axes.set_yticks(range(len(arms)), arms)
    axes.set_ylim(len(arms) - 0.5, -0.5)
    axes.set_xlim(0, axes.get_xlim()[1] * 1.06)
    axes.set_xlabel("prompt tokens of measured requests")
    axes.xaxis.set_major_formatter(lambda value, _: figure_number(value))
    legend(figure, _keys(), theme, loc="outside upper left", ncols=5, columnspacing=1.2, handlelength=1.4)
    return figure


def _keys() -> list[Any]:
    from matplotlib.patches import Patch

    return [Patch(facecolor=colour, hatch=hatch, edgecolor="white", label=name) for name, colour, hatch in PARTS]
