"""`testbed run` and `testbed demo`: run an experiment, write its report, and judge it."""

from pathlib import Path
from typing import Annotated

import typer

from testbed.cli.plan import HardwareName, Settings

Results = Annotated[Path, typer.Option("--results", help="The folder that holds the runs.")]


def run(
    experiment: Annotated[str, typer.Argument(help="A file of configs/experiments, or a path.")],
    settings: Settings = None,
    hardware: HardwareName = "cpu",
    results: Results = Path("results"),
) -> int:
    """Deploy, drive all arms, inject their faults, take down, report; the exit code is the verdict."""
    from testbed.cli.planning import make_plan
    from testbed.cli.talk import stopping, talk
    from testbed.errors import SpecError, TestbedError
    from testbed.experiment.conductor import Request, run_experiment
    from testbed.experiment.folders import default_folders

    if results.exists() and not results.is_dir():
        raise SpecError("is a file, not a folder for results", where=str(results))
    folders = default_folders(results)
    made, preflight = make_plan(experiment, settings if settings else [], hardware, folders)
    with stopping() as stop:
        before = set(results.glob("*/manifest.json"))
        try:
            folder = run_experiment(Request(made, preflight, folders, talk, stop))
        except TestbedError:
            for manifest in sorted(set(results.glob("*/manifest.json")) - before):
                talk(f"what was measured until then is in {manifest.parent}")
            raise
    code = judge(folder)
    return 130 if stop.asked else code


def demo(settings: Settings = None, results: Results = Path("results")) -> int:
    """Run the demo: what a KV tier buys on this machine, and what three faults cost."""
    return run("demo", settings=settings, results=results)


def judge(folder: Path) -> int:
    """Write the report of a run, print its summary and verdicts, and return the exit code."""
    from testbed.cli.report import write_report
    from testbed.cli.talk import talk

    code = write_report(folder)
    from testbed.journal.run import open_run

    times = open_run(folder).manifest.durations_s
    talk("where the time went: " + ", ".join(f"{part} {took_s:.0f} s" for part, took_s in times.items()))
    talk(f"report: {folder / 'report.html'}")
    return code
