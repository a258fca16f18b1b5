"""How deployments and their components are, told by records and processes alone, so that it is true after any crash."""

from dataclasses import dataclass
from pathlib import Path

from testbed.clock import now_s
from testbed.deploy.leftovers import Left, leftovers
from testbed.deploy.processes import alive
from testbed.deploy.ready import answers
from testbed.deploy.records import (
    DeploymentRecord,
    LeashRecord,
    SupervisorRecord,
    deployments,
    leash_path,
    read,
    supervised,
    supervisor_path,
)
from testbed.missing import Missing

ENDED = ("exited", "stopped", "expired", "lost", "gone")


@dataclass(frozen=True)
class ComponentStatus:
    """How one component is.

    `state`: new, loading, ready; exited (by itself, with `exit_status`, negative for a signal); stopped (told to);
    expired (its lease ran out); lost (its leash was killed); gone (its supervisor was killed). `left` is what could
    not be removed after its tree ended.
    """

    name: str
    state: str
    pid: int | None
    exit_status: int | None
    uptime_s: float | Missing
    log: str
    left: tuple[str, ...] = ()


@dataclass(frozen=True)
class DeploymentStatus:
    """How a deployment is.

    `state`: starting, up (all ready), degraded (some not), dead (no supervisor lives). `ray` is "answers" or what is
    wrong. `remaining` is what is there though no supervisor owns it any more.
    """

    name: str
    state: str
    kept: bool
    address: str
    ray: str
    folder: str
    components: tuple[ComponentStatus, ...]
    remaining: tuple[Left, ...]


def status(state: Path) -> list[DeploymentStatus]:
    """All deployments that are written down, as they are now."""
    return [deployment_status(state, record) for record in deployments(state)]


def deployment_status(state: Path, record: DeploymentRecord) -> DeploymentStatus:
    """One deployment as it is now."""
    names = [component.name for component in record.plan.components]
    components = tuple(component_status(state, record.plan.name, name) for name in names)
    owned = supervised(state, record)
    return DeploymentStatus(
        name=record.plan.name, state=_overall(components, owned, record), kept=record.kept, address=record.address,
        ray=_ray(record), folder=record.plan.folder, components=components,
        remaining=() if owned else tuple(leftovers(record, state)),
    )


def _overall(components: tuple[ComponentStatus, ...], owned: bool, record: DeploymentRecord) -> str:
    if all(component.state == "ready" for component in components):
        return "up"
    if any(component.state in ENDED for component in components) or record.kept:
        return "degraded" if owned else "dead"
    return "starting" if alive(record.driver) else "dead"


def _ray(record: DeploymentRecord) -> str:
    if not record.address:
        return "was not reached yet"
    return "answers" if answers(record.address) else "does not answer"


def component_status(state: Path, deployment: str, component: str) -> ComponentStatus:
    """The state of a component by what is written down and by the processes that live now."""
    supervisor = read(supervisor_path(state, deployment, component), SupervisorRecord)
    if supervisor is None:
        return ComponentStatus(component, "new", None, None, Missing("it was not started"), "")
    leash = read(leash_path(state, deployment, component), LeashRecord)
    shown = _shown(supervisor, leash)
    began_s = supervisor.began_s if shown in ("loading", "ready") else None
    return ComponentStatus(
        name=component, state=shown, log=supervisor.log,
        pid=leash.command.pid if leash and leash.command and alive(leash.command) else None,
        exit_status=leash.exit_status if leash else None,
        uptime_s=Missing(f"it is {shown}") if began_s is None else now_s() - began_s,
        left=leash.left if leash else (),
    )


def _shown(supervisor: SupervisorRecord, leash: LeashRecord | None) -> str:
    if supervisor.state in ("stopped", "expired", "new"):
        return supervisor.state if supervisor.state != "new" or alive(supervisor.process) else "gone"
    if leash is not None and leash.cause == "command ended":
        return "exited"
    if not alive(supervisor.process):
        return "gone"
    if leash is not None and not alive(leash.leash):
        return "lost"
    return supervisor.state
