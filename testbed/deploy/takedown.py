"""Take deployments down: by what is written down, so that it also finishes after any crash."""

from collections.abc import Callable
from pathlib import Path

from testbed.deploy.cluster import Cluster, connect, disconnect, end_head
from testbed.deploy.leftovers import end_by_records, leftovers
from testbed.deploy.placement import release
from testbed.deploy.ready import answers
from testbed.deploy.records import DeploymentRecord, deployments, forget, read_deployment
from testbed.errors import DeployError

Talk = Callable[[str], None]


def down(name: str, state: Path, talk: Talk) -> None:
    """End and remove all of a deployment; done already is fine, and so is a crash before.

    Raises: DeployError naming what is still there; its records stay then, so that it can be tried again.
    """
    record = read_deployment(state, name)
    if record is None:
        talk(f"{name}: there is no such deployment")
        return
    talk(f"{name}: taking it down")
    # Supervisors and perhaps the head are about to end; nobody here shall hear of it through Ray.
    disconnect()
    end_by_records(record, state)
    _release(record, state)
    left = leftovers(record, state)
    for found in left:
        talk(f"{name}: still there: {found.kind} {found.what}")
    # A port that is still open has been taken by somebody else, for no process of ours lives.
    ours = [f"{found.kind} {found.what}" for found in left if found.kind != "port"]
    if ours:
        raise DeployError(f"could not be removed: {'; '.join(ours)}", where=name)
    forget(state, name)
    disconnect()


def down_all(state: Path, talk: Talk) -> None:
    """Take all deployments down, and our own Ray head with them.

    Raises: DeployError naming what could not be removed, after trying all.
    """
    problems = []
    for record in deployments(state):
        try:
            down(record.plan.name, state, talk)
        except DeployError as problem:
            problems.append(str(problem))
    end_head(state)
    if problems:
        raise DeployError("\n".join(problems))


def _release(record: DeploymentRecord, state: Path) -> None:
    reserves = any(component.cpus or component.gpus for component in record.plan.components)
    if reserves and record.address and answers(record.address):
        release(connect(Cluster(record.address, record.own_head), state), record.mark)
