"""`testbed plan`: show all that an experiment or a topology would run, and start none of it."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from testbed.plan.site import Deployable
    from testbed.plan.standing import Machines

Settings = Annotated[
    list[str] | None, typer.Option("--set", help="KEY=VALUE in every arm's topology, such as tier.memory=1GiB.")
]
HardwareName = Annotated[str, typer.Option("--hardware", help="A file of configs/hardware, or a path.")]
SingleNode = Annotated[bool, typer.Option("--single-node", help="All engines on one GPU, which they share.")]
Shown = tuple[str, "tuple[Deployable, ...]"]


def plan(
    file: Annotated[str, typer.Argument(help="A file of configs/experiments or of topologies, or a path.")],
    settings: Settings = None,
    hardware: HardwareName = "cpu",
    nodes: Annotated[int, typer.Option("--nodes", min=1, help="GPU machines that there are.")] = 1,
    gpus_per_node: Annotated[
        int | None, typer.Option("--gpus-per-node", min=1, help="GPUs in each; else as the hardware file says.")
    ] = None,
    single_node: SingleNode = False,
    no_validate: Annotated[
        bool, typer.Option("--no-validate", help="Do not let vLLM's own parser judge the flags, for it is not here.")
    ] = False,
) -> None:
    """Print all that would run and the memory arithmetic of an experiment or a topology; start none of it.

    GPUs need not be here: --hardware h100 plans for them by their data sheet.
    """
    from testbed.experiment.specs import is_topology
    from testbed.plan.standing import Machines

    given = settings if settings else []
    machines = Machines(nodes, gpus_per_node, single_node)
    text, deployables = _topology(file, given, hardware, machines) if is_topology(file) else _experiment(
        file, given, hardware
    )
    typer.echo(text, nl=False)
    if not no_validate:
        _judge(deployables)


def _topology(file: str, settings: Sequence[str], hardware: str, machines: "Machines") -> Shown:
    from testbed.cli.talk import talk
    from testbed.experiment.folders import default_folders
    from testbed.experiment.topologies import plan_found, read_topology
    from testbed.plan.text import topology_text
    from testbed.spec.load import parse_setting

    found = read_topology(file, dict(parse_setting(text) for text in settings), hardware)
    folders = default_folders(Path("results"))
    standing, _ = plan_found(found, found.topology.name, folders, machines, talk)
    return topology_text(standing.deployable, standing.sums, found.dropped), (standing.deployable,)


def _experiment(file: str, settings: Sequence[str], hardware: str) -> Shown:
    from testbed.cli.planning import make_plan
    from testbed.experiment.deployables import block_deployable
    from testbed.experiment.folders import default_folders
    from testbed.plan.text import plan_text

    folders = default_folders(Path("results"))
    made, _ = make_plan(file, settings, hardware, folders)
    deployables = tuple(
        block_deployable(made, number, f"plan-{number}", folders.state / "sites" / f"plan-{number}", made.facts)
        for number in range(len(made.blocks))
    )
    return plan_text(made, deployables), deployables


def _judge(deployables: "Sequence[Deployable]") -> None:
    """Print what vLLM's parser says of each engine's flags."""
    from testbed.cli.talk import talk
    from testbed.engines.judge import judge_commands

    commands = {
        f"{one.plan.name}/{component.name}": component.command
        for one in deployables for component in one.plan.components
        if component.name in {part.name for part in one.engines}
    }
    version = judge_commands(commands, talk)
    typer.echo(f"flags of {', '.join(commands)}: taken by the parser of vLLM {version}")
