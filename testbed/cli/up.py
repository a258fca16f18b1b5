"""`testbed up`, `status`, `logs`, `restart`, `down`: deployments that stay."""

from pathlib import Path
from typing import Annotated

import typer

from testbed.cli.plan import HardwareName, Settings, SingleNode

Part = Annotated[str, typer.Argument(metavar="NAME/COMPONENT", help="A component, as `testbed status` lists them.")]


def up(
    topology: Annotated[str, typer.Argument(help="A file of topologies/, or a path.")],
    settings: Settings = None,
    hardware: HardwareName = "cpu",
    name: Annotated[
        str | None, typer.Option("--name", help="Name of the deployment; else that of the topology.")
    ] = None,
    address: Annotated[
        str | None, typer.Option("--address", help="A Ray cluster to join; else a head of our own.")
    ] = None,
    single_node: SingleNode = False,
) -> None:
    """Deploy a topology and leave it running until `testbed down`."""
    from testbed.cli.talk import talk
    from testbed.experiment.folders import default_folders
    from testbed.experiment.standing import Asked, deploy_standing
    from testbed.plan.standing import Machines
    from testbed.spec.load import parse_setting

    chosen = dict(parse_setting(text) for text in settings) if settings else {}
    folders = default_folders(Path("results"))
    asked = Asked(topology, chosen, hardware, name, address, Machines(single=single_node))
    typer.echo(deploy_standing(asked, folders, talk))


def status(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Say what is deployed, and whether it is alive."""
    from testbed.deploy.show import status_json, status_text
    from testbed.deploy.state import status as all_deployments
    from testbed.experiment.folders import default_folders

    found = all_deployments(default_folders(Path("results")).state)
    typer.echo(status_json(found) if as_json else status_text(found))


def logs(
    part: Part,
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, help="So many of the last lines.")] = 50,
) -> None:
    """Print the end of a component's log."""
    from testbed.deploy.deployment import find_deployment
    from testbed.experiment.folders import default_folders

    name, component = _named(part, "logs")
    for line in find_deployment(name, default_folders(Path("results")).state).tail(component, lines):
        typer.echo(line)


def restart(part: Part) -> None:
    """End a component's processes, start it anew, and wait until it is ready."""
    from testbed.cli.talk import talk
    from testbed.clock import now_s
    from testbed.deploy.deployment import find_deployment
    from testbed.experiment.folders import default_folders

    name, component = _named(part, "restart")
    deployment = find_deployment(name, default_folders(Path("results")).state)
    deployment.component(component)
    began_s = now_s()
    talk(f"{part}: restarting")
    deployment.restart(component)
    talk(f"{part}: ready after {now_s() - began_s:.1f} s")


def _named(part: str, verb: str) -> tuple[str, str]:
    """Deployment and component of NAME/COMPONENT.

    Raises: SpecError
    """
    from testbed.errors import SpecError

    name, slash, component = part.partition("/")
    if not (name and slash and component):
        raise SpecError(
            f"{part!r} is not NAME/COMPONENT", where=f"testbed {verb}", hint="`testbed status` lists both"
        )
    return name, component


def down(
    name: Annotated[
        str | None, typer.Argument(help="Name of the deployment; without one there must be a single one.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All deployments of this user.")] = False,
) -> None:
    """Take a deployment down; nothing of it stays. Safe to call twice."""
    from testbed.cli.talk import talk
    from testbed.deploy.state import status as all_deployments
    from testbed.errors import SpecError
    from testbed.experiment.folders import default_folders
    from testbed.experiment.standing import take_down

    folders = default_folders(Path("results"))
    names = [one.name for one in all_deployments(folders.state)]
    if name is None and not everything and len(names) != 1:
        known = ", ".join(names) if names else "none"
        raise SpecError(f"which deployment? There are: {known}", where="testbed down", hint="give a name, or --all")
    for one in names if name is None else [name]:
        take_down(one, folders, talk)
