"""`testbed report`: write a run's report again from its journal alone, and judge it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Group

    from testbed.checks.verdict import Verdict
    from testbed.journal.run import Run


def report(run: Annotated[Path, typer.Argument(help="A folder below results/.")]) -> int:
    """Write report.html and report.md of a run, print its summary; the exit code is the verdict."""
    return write_report(run)


def write_report(folder: Path) -> int:
    """Judge the run, write its report beside its journal, and print the summary.

    Raises: JournalError
    """
    from rich.console import Console

    from testbed.checks.runner import exit_code, run_checks
    from testbed.journal.run import open_run
    from testbed.report.document import build
    from testbed.report.terminal import summary

    opened = open_run(folder)
    verdicts = run_checks(opened)
    made = build(opened)
    (folder / "report.html").write_bytes(made.html)
    (folder / "report.md").write_text(made.markdown, encoding="utf-8")
    figures = folder / "figures"
    figures.mkdir(exist_ok=True)
    for name, content in made.figures.items():
        (figures / name).write_bytes(content)
    Console().print(summary(opened, verdicts) if opened.manifest.load is None else _of_load(opened, verdicts))
    return exit_code(verdicts, opened)


def _of_load(run: "Run", verdicts: "list[Verdict]") -> "Group":
    """The summary of a load, which has no arms to compare."""
    from testbed.metrics.analysis import Analysis
    from testbed.metrics.table import summarise_analysis
    from testbed.report.load_summary import load_summary

    analysis = Analysis(run)
    return load_summary(analysis, verdicts, summarise_analysis(analysis))
