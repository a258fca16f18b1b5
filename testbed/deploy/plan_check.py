"""What can be known to fail before anything is started: names, needs, ports."""

import re
from collections import Counter

from testbed.deploy.processes import command_line, holder, open_ports
from testbed.errors import DeployError
from testbed.plan.component import DeploymentPlan

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


def check_plan(plan: DeploymentPlan) -> None:
    """Names must do as file names, and needs must lead to an order.

    Raises: DeployError naming the component.
    """
    names = [component.name for component in plan.components]
    for name in (plan.name, *names):
        if not NAME.fullmatch(name):
            raise DeployError(f"{name!r} can't be a name; letters, digits, '-', '_' and '.' can", where=plan.name)
    for name, count in Counter(names).items():
        if count > 1:
            raise DeployError(f"{count} components are called {name!r}", where=plan.name)
    ready: set[str] = set()
    while len(ready) < len(names):
        next_ones = {found.name for found in plan.components if found.name not in ready and set(found.needs) <= ready}
        if not next_ones:
            stuck = ", ".join(f"{found.name} ({', '.join(found.needs)})" for found in plan.components
                              if found.name not in ready)
            raise DeployError(f"needs that can't be met: {stuck}", where=plan.name)
        ready |= next_ones


def check_ports(plan: DeploymentPlan) -> None:
    """No port of the plan may be open yet.

    Raises: DeployError naming each busy port and who holds it.
    """
    owners = {port: component.name for component in plan.components for port in component.ports}
    busy = [f"port {port} of {owners[port]} is busy{_held_by(port)}" for port in open_ports(owners)]
    if busy:
        raise DeployError("; ".join(busy), where=plan.name, hint="end that process, or plan other ports")


def _held_by(port: int) -> str:
    found = holder(port)
    return f", held by process {found.pid}: {command_line(found.pid)}" if found else ""
