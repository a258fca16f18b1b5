"""The verdict of one check over one run."""

from collections.abc import Callable

import pytest

from testbed.checks.runner import CHECKS, check_analysis
from testbed.checks.verdict import Verdict
from testbed.journal.run import Run
from testbed.metrics.analysis import Analysis

Judge = Callable[[str, Run], Verdict | None]


@pytest.fixture
def judge() -> Judge:
    """`judge(name, run)`: the verdict, or None where the check does not apply."""
    def of(name: str, run: Run) -> Verdict | None:
        only = [check for check in CHECKS if check.name == name]
        assert only, f"there is no check {name}"
        return next(iter(check_analysis(Analysis(run), only)), None)
    return of


def status(judge: Judge, check: str, run: Run) -> tuple[str, str]:
    """Status of a check that applies, and all its evidence as one text."""
    found = judge(check, run)
    assert found is not None
    return found.status, "\n".join(found.evidence)
