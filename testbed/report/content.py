"""What a document is made of, before it is HTML or Markdown. Each block knows its kind for the template."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Text:
    """A paragraph. `tone` sets a warning apart."""

    text: str
    tone: Literal["plain", "warning"] = "plain"
    kind: Literal["text"] = "text"


@dataclass(frozen=True)
class Items:
    """A list of short lines."""

    lines: tuple[str, ...]
    kind: Literal["items"] = "items"


@dataclass(frozen=True)
class Cell:
    """A cell of a table: its text, a smaller line below it, and a mark such as PASS."""

    text: str
    below: str = ""
    mark: str = ""


@dataclass(frozen=True)
class Table:
    """A table; the first column holds names, the others numbers if `numeric`."""

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    numeric: bool = True
    kind: Literal["table"] = "table"


@dataclass(frozen=True)
class Picture:
    """A figure in both themes, as SVG."""

    name: str
    alt: str
    caption: str
    light: bytes
    dark: bytes
    kind: Literal["picture"] = "picture"


@dataclass(frozen=True)
class Verbatim:
    """Text that keeps its lines, such as a plan."""

    title: str
    text: str
    kind: Literal["verbatim"] = "verbatim"


Block = Text | Items | Table | Picture | Verbatim


@dataclass(frozen=True)
class Section:
    """A heading and what stands below it."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Document:
    """A whole report. `status` is PASS, FAIL or UNKNOWN, for the colour of the verdict line."""

    title: str
    subtitle: str
    verdict: str
    status: str
    sections: tuple[Section, ...]


def row(*cells: str | Cell) -> tuple[Cell, ...]:
    """A row of a table out of plain texts and cells."""
    return tuple(cell if isinstance(cell, Cell) else Cell(cell) for cell in cells)
