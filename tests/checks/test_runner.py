"""Verdicts and the exit code that they make."""

import pytest

from testbed.checks.runner import CHECKS, Check, check_analysis, exit_code, run_checks
from testbed.checks.verdict import Finding, Verdict, passed
from testbed.journal.reader import Journal
from testbed.journal.run import Run
from testbed.metrics.analysis import Analysis
from tests.synthetic import demo_run, with_facts

DEMO = demo_run()


def test_every_check_passes_over_a_run_in_which_nothing_is_wrong() -> None:
    verdicts = run_checks(DEMO)
    assert [(one.check, one.status) for one in verdicts] == [(check.name, "PASS") for check in CHECKS]
    assert exit_code(verdicts, DEMO) == 0


def test_a_check_that_breaks_is_unknown_and_ends_no_other() -> None:
    def broken(analysis: Analysis) -> Finding | None:
        raise ZeroDivisionError("nothing there")

    checks = [Check("broken", "?", broken), Check("other", "?", lambda analysis: passed("fine"))]
    found = check_analysis(Analysis(DEMO), checks)
    assert [(one.check, one.status) for one in found] == [("broken", "UNKNOWN"), ("other", "PASS")]
    assert "ZeroDivisionError: nothing there" in found[0].text


@pytest.mark.parametrize(
    ("statuses", "code"),
    [(["PASS"], 0), (["PASS", "FAIL"], 1), (["UNKNOWN", "PASS"], 4), (["FAIL", "UNKNOWN"], 4), ([], 4)],
)
def test_invalid_comes_before_failed(statuses: list[str], code: int) -> None:
    names = {"PASS", "FAIL", "UNKNOWN"}
    assert names.issuperset(statuses)
    verdicts = [Verdict("c", status, "") for status in statuses]  # type: ignore[arg-type]
    assert exit_code(verdicts, DEMO) == code


@pytest.mark.parametrize("status", ["running", "interrupted", "broken"])
def test_a_run_that_did_not_complete_is_invalid(status: str) -> None:
    assert exit_code([Verdict("c", "PASS", "")], with_facts(DEMO, status=status)) == 4


def test_an_empty_run_is_invalid_and_breaks_no_check() -> None:
    empty = Run(DEMO.manifest, Journal(()), {})
    verdicts = run_checks(empty)
    assert not any("broke" in one.text for one in verdicts)
    assert exit_code(verdicts, empty) == 4


def test_long_evidence_is_cut_and_says_so() -> None:
    found = passed("fine", [str(k) for k in range(30)])
    assert len(found.evidence) == 21
    assert found.evidence[-1] == "and 10 more"
