"""What all figures share: colours for light and dark pages, a blank figure, and its bytes.

matplotlib is imported on use, for it is slow to load and only a report needs it. Bytes depend on the content alone: no
date, and ids of a fixed salt.
"""

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

@dataclass(frozen=True)
class Theme:
    """Colours of a page. `classes` are told apart with any kind of colour vision, and by lightness in print."""

    name: str
    ink: str
    faint: str
    grid: str
    fault: str
    classes: tuple[str, ...]

    def colours(self, names: Sequence[str]) -> dict[str, str]:
        """A colour for each traffic class."""
        return {name: self.classes[k % len(self.classes)] for k, name in enumerate(names)}


LIGHT = Theme(
    "light", "#1b1f24", "#5b6570", "#d9dee3", "#C1272D",
    ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00"),
)
DARK = Theme(
    "dark", "#e6e9ec", "#a3adb8", "#3a424b", "#FF7B72",
    ("#56B4E9", "#E69F00", "#2FC49A", "#E5A4C8", "#8CB6FF", "#FF9F6B"),
)


def blank(width_in: float, height_in: float, rows: int, columns: int, **options: Any) -> "tuple[Figure, list[Axes]]":
    """A figure with a grid of axes, in order of rows; `options` go to the grid."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width_in, height_in), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, **options)
    return figure, list(axes.flat)


def dress(axes: "Axes", theme: Theme) -> None:
    """Quiet axes: no box, a light grid along x, text in the colours of the page."""
    axes.set_facecolor("none")
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(theme.grid)
    axes.tick_params(colors=theme.ink, labelsize=8, length=0)
    axes.xaxis.label.set_color(theme.faint)
    axes.xaxis.label.set_size(8)
    axes.grid(axis="x", color=theme.grid, linewidth=0.6)
    axes.set_axisbelow(True)


def titled(axes: "Axes", text: str, theme: Theme) -> None:
    """A title at the left, above the axes."""
    axes.set_title(text, loc="left", fontsize=9, color=theme.ink, fontweight="bold")


def legend(target: "Figure | Axes", handles: list[Any], theme: Theme, **options: Any) -> None:
    """A legend without a box."""
    target.legend(handles=handles, frameon=False, fontsize=8, labelcolor=theme.ink, **options)


def svg(figure: "Figure") -> bytes:
    """The figure as SVG with a transparent ground."""
    import matplotlib

    stream = io.BytesIO()
    figure.patch.set_alpha(0.0)
    with matplotlib.rc_context({"svg.hashsalt": "testbed", "svg.fonttype": "path"}):
        figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    return stream.getvalue()


def recoloured(picture: bytes, drawn: Theme, wanted: Theme) -> bytes:
    """An SVG in the colours of another page: drawing it again would take as long as the first time."""
    pairs = [
        (drawn.ink, wanted.ink), (drawn.faint, wanted.faint), (drawn.grid, wanted.grid), (drawn.fault, wanted.fault),
        *zip(drawn.classes, wanted.classes, strict=True),
    ]
    change = {before.lower().encode(): after.lower().encode() for before, after in pairs}
    return re.sub(b"#[0-9a-f]{6}", lambda match: change.get(match[0], match[0]), picture)
