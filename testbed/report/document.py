"""Build the report of a run: its content once, then HTML and Markdown from it.

The same journal gives the same bytes: nothing here reads a clock, draws a number, or looks at this machine.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from testbed.checks.runner import FAILED, VALID, check_analysis, exit_code
from testbed.checks.verdict import Verdict
from testbed.journal.run import Run
from testbed.metrics.analysis import Analysis
from testbed.metrics.table import Row, summarise_analysis
from testbed.report import arms, arrivals, ledger, markdown, page, timeline
from testbed.report.appendix import appendix_section
from testbed.report.canvas import DARK, LIGHT, Theme, recoloured, svg
from testbed.report.client import client_section
from testbed.report.content import Document, Picture, Section, Text
from testbed.report.load_section import load_section
from testbed.report.summary import hypothesis_section, limits_section, summary_section, verdict_line
from testbed.report.tables import bounds_section, checks_section, numbers_section

if TYPE_CHECKING:
    from matplotlib.figure import Figure


TITLE = "what the KV tier bought, and what its faults cost"
LOAD_TITLE = "what the server did under it"
MOST_DRAWN = 2000
"""A picture with a line for each request is no picture beyond this."""


@dataclass(frozen=True)
class Report:
    """`html` stands alone. `markdown` names its pictures as `figures/NAME`, which `figures` holds by NAME."""

    html: bytes
    markdown: str
    figures: dict[str, bytes]


def build(run: Run) -> Report:
    """The report of a run, whatever there is of it: what is missing says so and why."""
    analysis = Analysis(run)
    document = compose(analysis, check_analysis(analysis), summarise_analysis(analysis))
    pictures = [block for section in document.sections for block in section.blocks if isinstance(block, Picture)]
    return Report(
        page.render(document), markdown.render(document), {f"{one.name}.svg": one.light for one in pictures},
    )


def compose(analysis: Analysis, verdicts: list[Verdict], rows: list[Row]) -> Document:
    """The content of the report, from the verdict down to the appendix."""
    manifest = analysis.run.manifest
    code = exit_code(verdicts, analysis.run)
    is_load = manifest.load is not None
    model = manifest.model if is_load else f"{manifest.model} in {manifest.dtype}"
    return Document(
        title=f"{manifest.experiment}: {LOAD_TITLE if is_load else TITLE}",
        subtitle=f"Run {manifest.run}, {manifest.created}, {model}, seed {manifest.seed}",
        verdict=verdict_line(verdicts, code), status={VALID: "PASS", FAILED: "FAIL"}.get(code, "UNKNOWN"),
        sections=_of_load(analysis, verdicts, rows) if is_load else (
            summary_section(analysis, verdicts), hypothesis_section(analysis), limits_section(analysis),
            Section("Timeline", (_timeline(analysis),)), Section("Arms", _arms(analysis, rows)),
            numbers_section(analysis, rows), client_section(analysis, _arrivals(analysis)), checks_section(verdicts),
            bounds_section(analysis), appendix_section(analysis),
        ),
    )


def _of_load(analysis: Analysis, verdicts: list[Verdict], rows: list[Row]) -> tuple[Section, ...]:
    """A load has no arms to compare, no faults and no tier."""
    facts = analysis.run.manifest.load
    drawn = len(analysis.views) <= MOST_DRAWN
    timeline = _timeline(analysis) if drawn else Text(f"More than {MOST_DRAWN:,} requests are not drawn one by one.")
    return (
        *(() if facts is None else (load_section(analysis, verdicts, facts),)), Section("Timeline", (timeline,)),
        numbers_section(analysis, rows), client_section(analysis, _arrivals(analysis)), checks_section(verdicts),
        appendix_section(analysis),
    )


def _timeline(analysis: Analysis) -> Picture:
    return _picture(
        "timeline", "requests of each arm over time, and the faults that struck them",
        "Each line is a request, from the moment it was due to its end; thick from its first token on. "
        "Shaded: a fault acts on a request.",
        lambda theme: timeline.draw(analysis, theme),
    )


def _arms(analysis: Analysis, rows: list[Row]) -> tuple[Picture, ...]:
    return (
        _picture(
            "arms", "time to first token, recomputed tokens and goodput of each arm",
            "Bars with 95 % intervals. Recompute is known only where a probe saw the scheduler's steps.",
            lambda theme: arms.draw(analysis, rows, theme),
        ),
        _picture(
            "ledger", "where the prompt tokens of each arm came from",
            "Each prompt token has one source; what was computed beside them stands at the end of the bar.",
            lambda theme: ledger.draw(analysis, theme),
        ),
    )


def _arrivals(analysis: Analysis) -> Picture:
    return _picture(
        "arrivals", "requests due and sent over time, and how late they were sent",
        "Where the thin line leaves the broad one, the client was behind its schedule.",
        lambda theme: arrivals.draw(analysis, theme),
    )


def _picture(name: str, alt: str, caption: str, draw: "Callable[[Theme], Figure]") -> Picture:
    light = svg(draw(LIGHT))
    return Picture(name, alt, caption, light, recoloured(light, LIGHT, DARK))
