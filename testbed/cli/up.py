"""`testbed up`, `status`, `down`: deployments that stay."""

from pathlib import Path
from typing import Annotated

import typer

from testbed.cli.plan import HardwareName, Settings


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
) -> None:
    """Deploy a topology and leave it running until `testbed down`."""
    from testbed.cli.talk import talk
    from testbed.experiment.folders import default_folders
    from testbed.experiment.standing import deploy_standing
    from testbed.spec.load import parse_setting

    chosen = dict(parse_setting(text) for text in settings) if settings else {}
    folders = default_folders(Path("results"))
    curl = deploy_standing(topology, chosen, hardware, folders, name=name, address=address, talk=talk)
    typer.echo(curl)


def status(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Say what is deployed, and whether it is alive."""
    from testbed.deploy.show import status_json, status_text
    from testbed.deploy.state import status as all_deployments
    from testbed.experiment.folders import default_folders

    found = all_deployments(default_folders(Path("results")).state)
    typer.echo(status_json(found) if as_json else status_text(found))


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
