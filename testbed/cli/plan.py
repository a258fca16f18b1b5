"""`testbed plan`: show all that an experiment would run, and start nothing."""

from pathlib import Path
from typing import Annotated

import typer

Settings = Annotated[
    list[str] | None, typer.Option("--set", help="KEY=VALUE in every arm's topology, such as tier.memory=1GiB.")
]
HardwareName = Annotated[str, typer.Option("--hardware", help="A file of configs/hardware, or a path.")]


def plan(
    experiment: Annotated[str, typer.Argument(help="A file of configs/experiments, or a path.")],
    settings: Settings = None,
    hardware: HardwareName = "cpu",
) -> None:
    """Print requests, arms, commands and the memory arithmetic of an experiment; start nothing."""
    from testbed.cli.planning import make_plan
    from testbed.experiment.deployables import block_deployable
    from testbed.experiment.folders import default_folders
    from testbed.plan.text import plan_text

    folders = default_folders(Path("results"))
    made, _ = make_plan(experiment, settings if settings else [], hardware, folders)
    deployables = tuple(
        block_deployable(made, number, f"plan-{number}", folders.state / "sites" / f"plan-{number}", made.facts)
        for number in range(len(made.blocks))
    )
    typer.echo(plan_text(made, deployables), nl=False)
