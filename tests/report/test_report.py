"""The report: complete, the same each time, and honest about what is missing."""

import base64
import re
from functools import cache
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from testbed import report
from testbed.journal.events import RequestEnded
from testbed.journal.reader import Journal
from testbed.journal.run import Run
from tests.synthetic import RUN, demo_run, made_run, with_facts, without

DEMO = demo_run()
SECTIONS = (
    "Summary", "Hypothesis", "What this run cannot say", "Timeline", "Arms", "Numbers", "The client", "Checks",
    "Loads and their bounds", "Appendix",
)


@cache
def good() -> report.Report:
    """The report of a run in which all is well; built where a test asks for it first."""
    return report.build(DEMO)


@cache
def bad() -> report.Report:
    """The report of a run with much to say."""
    return report.build(with_facts(
        DEMO, left_behind=["process 4711"], required_metrics=["speed"], stub=True, model="<script>alert(1)</script>|x",
        plan="a ``` b",
    ))


def page() -> str:
    """The HTML of the good one."""
    return good().html.decode()


class Outline(HTMLParser):
    """Headings, addresses of anything loaded, and tags that were left open."""

    def __init__(self) -> None:
        super().__init__()
        self.headings: list[str] = []
        self.sources: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.sources += [value for name, value in attrs if name in ("src", "srcset", "href") and value]
        if tag not in ("meta", "img", "source", "wbr"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "h2":
            self.headings.append(data)


def outline(html: str) -> Outline:
    """The outline of a page."""
    found = Outline()
    found.feed(html)
    return found


def test_the_same_journal_gives_the_same_bytes() -> None:
    assert report.build(made_run()) == good()


def test_the_page_is_whole_and_loads_nothing_from_elsewhere() -> None:
    found = outline(page())
    assert found.open == []
    assert tuple(found.headings) == SECTIONS
    assert found.sources
    assert all(source.startswith("data:image/svg+xml;base64,") for source in found.sources)


def test_every_picture_is_svg_in_a_light_and_a_dark_version() -> None:
    pictures = [base64.b64decode(source.partition(",")[2]) for source in outline(page()).sources]
    assert len(pictures) == 2 * len(good().figures) == 8
    assert len(set(pictures)) == 8
    for picture in pictures:
        assert ElementTree.fromstring(picture).tag.endswith("svg")


def test_html_and_markdown_have_the_same_sections_and_numbers() -> None:
    assert tuple(re.findall(r"^## (.+)$", good().markdown, re.M)) == SECTIONS
    # every number of the table of numbers in the one is in the other
    rows = [line for line in good().markdown.splitlines() if line.startswith("| ttft_s (long_doc, p50)")]
    assert len(rows) == 1
    numbers = re.findall(r"\d+\.\d+ s", rows[0])
    assert len(numbers) == 5
    assert all(number in page() for number in numbers)


def test_markdown_names_each_figure_that_is_there() -> None:
    named = re.findall(r"\(figures/(\w+\.svg)\)", good().markdown)
    assert sorted(named) == sorted(good().figures) == ["arms.svg", "arrivals.svg", "ledger.svg", "timeline.svg"]


def test_rows_of_a_markdown_table_have_as_many_cells_as_their_head() -> None:
    tables = re.findall(r"(?:^\|.*\|\n)+", good().markdown, re.M)
    assert tables
    for table in tables:
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1


def test_the_verdict_and_its_meaning_come_first() -> None:
    assert "**Exit 0: valid, all checks pass. Of 22 checks: 22 PASS, 0 FAIL, 0 UNKNOWN.**" in good().markdown
    assert '<p class="verdict PASS">Exit 0' in page()


def test_a_cost_says_how_many_requests_were_struck_in_both_arms() -> None:
    rows = {line.split(" | ")[0]: line for line in good().markdown.splitlines() if line.startswith("| evicted / ")}
    assert " | 8 (8 of 8 struck in both) | " in rows["| evicted / evict"]
    assert "| held / hold | 8 | " in good().markdown


def test_a_failed_check_is_in_the_summary_also_of_an_invalid_run() -> None:
    summary = bad().markdown.partition("## Hypothesis")[0]
    assert "**Exit 4: the run is not valid" in summary
    assert "- FAIL nothing_left: 1 thing left behind" in summary
    assert "- UNKNOWN required_metrics" in summary


def test_a_missing_number_says_no_value_and_why() -> None:
    assert "no value: no probe in this arm: its counters do not tell" in good().markdown
    assert "no value: path memory has no nominal rate" in good().markdown
    for word in ("nan", "inf", "None"):
        assert not re.search(rf"\b{word}\b", good().markdown)


def test_it_says_what_it_cannot_say() -> None:
    part = good().markdown.partition("## What this run cannot say")[2].partition("## Timeline")[0]
    for told in ("ran on a CPU", "no data-sheet rate", "One machine", "Each arm ran once"):
        assert told in part


def test_a_run_of_the_stand_in_server_is_marked_as_no_result() -> None:
    assert "no number in it is a result" in bad().markdown
    assert 'class="warning"' in bad().html.decode()
    assert "no number in it is a result" not in good().markdown


@pytest.mark.parametrize("what", ["nothing", "no_ends"])
def test_a_run_that_was_broken_off_still_has_a_report(what: str) -> None:
    broken = (
        Run(DEMO.manifest, Journal(()), {}) if what == "nothing"
        else without(DEMO, lambda one: isinstance(one, RequestEnded))
    )
    built = report.build(broken)
    assert "Exit 4" in built.markdown
    assert tuple(outline(built.html.decode()).headings) == SECTIONS


def test_text_of_the_run_is_escaped() -> None:
    assert "<script>" not in bad().html.decode()
    assert "&lt;script&gt;" in bad().html.decode()
    assert "````\na ``` b\n````" in bad().markdown


def test_plan_specs_seed_and_versions_are_in_the_appendix() -> None:
    part = good().markdown.partition("## Appendix")[2]
    facts = (RUN, "| seed | 7 |", "| vllm | 0.32.0 |", "engine-0: vllm serve", "name: demo", "0123abc", "float32 was")
    for told in facts:
        assert told in part
