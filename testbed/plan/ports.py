"""Ports, given out once for a whole deployment."""

from collections.abc import Iterable

from testbed.errors import DeployError

FIRST_PORT = 18100
PORTS_PER_DEPLOYMENT = 20


def assign_ports(names: Iterable[str], busy: frozenset[int], first: int = FIRST_PORT) -> dict[str, int]:
    """A port for each name: the first range of its size in which none is busy, in steps of a deployment's range.

    Raises: DeployError when there is no such range.
    """
    wanted = list(names)
    for start in range(first, first + 100 * PORTS_PER_DEPLOYMENT, PORTS_PER_DEPLOYMENT):
        ports = range(start, start + len(wanted))
        if busy.isdisjoint(ports):
            return dict(zip(wanted, ports, strict=True))
    raise DeployError(
        f"no {len(wanted)} free ports in a row from {first} on", hint="end what listens there, or see `testbed status`"
    )
