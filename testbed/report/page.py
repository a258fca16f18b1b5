"""A document as one HTML file that needs no network: styles and pictures are inside."""

import base64
from typing import TYPE_CHECKING

from testbed.report.content import Document

if TYPE_CHECKING:
    from markupsafe import Markup


def render(document: Document) -> bytes:
    """The page, for light and dark screens and for A4."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("testbed.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["embedded"] = _embedded
    environment.filters["breakable"] = _breakable
    return environment.get_template("report.html.j2").render(document=document).encode()


def _breakable(name: str) -> "Markup":
    """A name that may break after each underscore."""
    from markupsafe import Markup, escape

    return Markup(str(escape(name)).replace("_", "_<wbr>"))


def _embedded(svg: bytes) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(svg).decode()}"
