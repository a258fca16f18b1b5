"""The summary on a terminal, and the wording of numbers."""

import pytest
from rich.console import Console

from testbed.checks.runner import run_checks
from testbed.journal.run import Run
from testbed.missing import Missing
from testbed.report import terminal
from testbed.report.wording import figure_number, interval, number
from tests.synthetic import demo_run, with_facts

DEMO = demo_run()


def printed(run: Run) -> str:
    """What a terminal of 160 columns shows."""
    console = Console(width=160, record=True, file=None, quiet=False)
    with console.capture() as capture:
        console.print(terminal.summary(run, run_checks(run)))
    return capture.get()


def test_the_terminal_shows_each_arm_the_gain_the_costs_and_the_verdict() -> None:
    text = printed(DEMO)
    for told in (
        "no_tier", "timeouts", "54 / 54", "faster with the tier", "held/hold struck 8 requests: TTFT p50",
        "evicted/evict struck 8 requests (8 of 8 struck in both): TTFT p50",
        "hypothesis supported", "Exit 0: valid, all checks pass.",
    ):
        assert told in text


def test_failures_are_shown_with_their_evidence_whatever_the_exit_code() -> None:
    text = printed(with_facts(DEMO, left_behind=["process 4711 of engine-0"], status="interrupted"))
    assert "FAIL nothing_left" in text
    assert "process 4711 of engine-0" in text
    assert "Exit 4" in text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (1.0, "1"), (0.12345, "0.123"), (1234.5, "1,234"), (13696.0, "13,696"), (12.345, "12.3")],
)
def test_numbers_have_three_digits_and_whole_ones_all(value: float, text: str) -> None:
    assert figure_number(value) == text


def test_a_number_has_its_unit_and_a_missing_one_its_reason() -> None:
    assert number(0.25, "s") == "0.25 s"
    assert number(0.00251, "s") == "2.51 ms"
    assert number(Missing("nobody asked"), "s") == "no value: nobody asked"
    assert interval(Missing("n=2"), Missing("n=2")) == ""
    assert interval(0.5, 1.25) == "0.5 to 1.25"
