"""The summary of a load on a terminal."""

from rich.console import Console

from testbed.checks.runner import LOAD_CHECKS, check_analysis
from testbed.checks.verdict import Verdict
from testbed.journal.events import RequestEnded
from testbed.journal.manifest import Limits
from testbed.journal.run import Run
from testbed.metrics.analysis import Analysis
from testbed.metrics.table import summarise
from testbed.report.load_summary import load_summary, outcome_lines
from tests.report.test_bench_json import run_of
from tests.synthetic import changed


def printed(run: Run, verdicts: list[Verdict]) -> str:
    """What a terminal of 160 columns shows."""
    console = Console(width=160, record=True, file=None, quiet=False)
    with console.capture() as capture:
        console.print(load_summary(Analysis(run), verdicts, summarise(run)))
    return capture.get()


def test_what_did_not_end_well_comes_first_with_its_reason() -> None:
    lines = outcome_lines(Analysis(run_of()))
    assert lines == ["4 planned = ok 3, failed 1", "  1 x failed/http_500, such as: out of memory"]
    assert printed(run_of(), []).startswith("4 planned = ok 3, failed 1")


def test_the_commonest_reason_comes_first() -> None:
    run = changed(run_of(), lambda one: isinstance(one, RequestEnded) and one.request_id.endswith((".0", ".1")),
                  outcome="rejected", reason="rejected/429")
    assert [line.split(",")[0] for line in outcome_lines(Analysis(run))[1:]] == [
        "  2 x rejected/429", "  1 x failed/http_500",
    ]


def test_latencies_stand_in_both_readings_and_a_missing_one_says_so() -> None:
    shown = printed(run_of(), [])
    rows = {line.strip().split("  ")[0]: line.split() for line in shown.splitlines() if line.strip()}
    # n, mean and p50 of 100, 202, 50 ms: three answers have neither p95 nor p99
    assert rows["TTFT, from the schedule"][-7:] == ["3", "117", "100", "no", "value", "no", "value"]
    assert rows["TTFT, from sending"][-7:-4] == ["3", "117", "100"]
    # (0 + 2 + 0 + 0) / 4: the request that failed was sent too
    assert rows["send lag"][-7:-4] == ["4", "0.5", "0"]


def test_goodput_says_that_outputs_are_unchecked() -> None:
    shown = printed(run_of(limits=Limits(ttft_s=0.15, derivation="by hand")), [])
    # requests 0 and 3 of 4
    assert "goodput (outputs unchecked): 50.0% of the planned" in shown
    assert "goodput: no limits were given" in printed(run_of(), [])


def test_checks_that_do_not_pass_are_told_with_the_exit_code() -> None:
    bad = Verdict("enough_succeeded", "UNKNOWN", "not valid: fewer than 90% of a class succeeded", ("1 of 4 failed",))
    shown = printed(run_of(), [bad])
    assert "UNKNOWN enough_succeeded: not valid" in shown
    assert "    1 of 4 failed" in shown
    assert "Exit 4" in shown


def test_a_load_is_asked_only_what_a_load_can_answer() -> None:
    names = {verdict.check for verdict in check_analysis(Analysis(run_of()))}
    assert names <= LOAD_CHECKS
    assert {"outcomes_add_up", "enough_succeeded", "client_in_time"} <= names
