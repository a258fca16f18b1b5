"""Deployments as text and as JSON."""

import json
from collections.abc import Iterator, Sequence

from testbed.deploy.state import ComponentStatus, DeploymentStatus
from testbed.missing import Missing


def status_text(found: Sequence[DeploymentStatus]) -> str:
    """A line per deployment, and one per component below it."""
    return "\n".join(line for one in found for line in _lines(one)) if found else "nothing is deployed"


def _lines(one: DeploymentStatus) -> Iterator[str]:
    stays = "stays until `testbed down`" if one.kept else "ends with the command that started it"
    yield f"{one.name}: {one.state}; Ray at {one.address} {one.ray}; {stays}"
    for component in one.components:
        yield f"  {component.name}: {_component(component)}"
    for left in one.remaining:
        yield f"  left behind: {left.kind} {left.what}"


def _component(one: ComponentStatus) -> str:
    parts = [one.state]
    if one.pid is not None:
        parts.append(f"pid {one.pid}")
    if not isinstance(one.uptime_s, Missing):
        parts.append(f"up {one.uptime_s:.0f} s")
    if one.exit_status is not None:
        parts.append(f"exit status {one.exit_status}")
    return ", ".join([*parts, f"log {one.log}"] if one.log else parts)


def status_json(found: Sequence[DeploymentStatus]) -> str:
    """The same as JSON; what is unknown is null, with the reason beside it."""
    rows = [
        {
            "name": one.name, "state": one.state, "kept": one.kept, "address": one.address, "ray": one.ray,
            "folder": one.folder, "components": [_row(component) for component in one.components],
            "remaining": [{"kind": left.kind, "what": left.what} for left in one.remaining],
        }
        for one in found
    ]
    return json.dumps(rows, indent=2)


def _row(one: ComponentStatus) -> dict[str, object]:
    unknown = isinstance(one.uptime_s, Missing)
    return {
        "name": one.name, "state": one.state, "pid": one.pid, "exit_status": one.exit_status, "log": one.log,
        "uptime_s": None if unknown else one.uptime_s, "uptime_missing": str(one.uptime_s) if unknown else None,
        "left": list(one.left),
    }
