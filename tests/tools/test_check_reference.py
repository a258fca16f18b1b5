"""A committed report that its journal does not give is seen."""

import sys
from pathlib import Path

import pytest

from tools.check_reference import differences

# Stands for `testbed report`: writes what the journal says into a report beside it, and ends with a verdict.
REPORT = [
    sys.executable, "-c",
    "import pathlib, sys; run = pathlib.Path(sys.argv[1]); text = (run / 'journal').read_text(); "
    "(run / 'report.md').write_text(text); sys.exit(int(text))",
]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run that failed a check, with its report."""
    folder = tmp_path / "R1"
    folder.mkdir()
    (folder / "journal").write_text("1")
    (folder / "report.md").write_text("1")
    return folder


def test_a_report_that_its_journal_gives_is_right(run: Path) -> None:
    assert differences(run, REPORT) == []


def test_a_changed_report_is_seen(run: Path) -> None:
    (run / "report.md").write_text("a better number")
    assert differences(run, REPORT) == [f"{run / 'report.md'} is not what its journal gives"]


def test_a_report_file_that_is_made_no_more_is_seen(run: Path) -> None:
    (run / "report.html").write_text("old")
    assert differences(run, REPORT) == [f"{run / 'report.html'} is not what its journal gives"]


def test_a_report_that_cannot_be_made_is_seen(run: Path) -> None:
    (run / "journal").write_text("70")
    assert differences(run, REPORT) == [f"{run}: the report could not be made, exit code 70"]


def test_a_run_without_a_report_is_seen(run: Path) -> None:
    (run / "report.md").unlink()
    assert differences(run, REPORT) == [f"{run} has no report to compare with"]
