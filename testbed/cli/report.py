"""`testbed report`: write a run's report again from its journal alone, and judge it."""

from pathlib import Path
from typing import Annotated

import typer


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
    Console().print(summary(opened, verdicts))
    return exit_code(verdicts, opened)
