"""Bring a deployment up.

Until it is kept, a deployment belongs to the process that asked for it: its lease is renewed from here, and when that
process is gone the deployment takes itself down.
"""

import os
import secrets
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec

from testbed.clock import now_s, sleep_s
from testbed.deploy.cluster import connect, find
from testbed.deploy.deployment import RENEWALS_PER_LEASE, Deployment, failure
from testbed.deploy.placement import reserve, supervise
from testbed.deploy.plan_check import check_plan, check_ports
from testbed.deploy.processes import alive, this_process
from testbed.deploy.records import (
    DeploymentRecord,
    deployment_path,
    locked,
    read_deployment,
    supervised,
    write,
)
from testbed.deploy.state import ENDED
from testbed.deploy.supervisor import SupervisorOrder
from testbed.deploy.takedown import down
from testbed.errors import DeployError, RunError
from testbed.plan.component import DeploymentPlan

Talk = Callable[[str], None]
LOOK_EVERY_S = 0.1
TALK_EVERY_S = 10.0


def up(plan: DeploymentPlan, *, state: Path, talk: Talk, lease_s: float | None = 15.0,
       address: str | None = None) -> Deployment:
    """Start all components and wait until they are ready; the same plan again is the deployment that is there.

    What does not need each other starts together. With `lease_s` the deployment ends when it is not renewed in time;
    call `keep` or `keep_lease`.
    Raises: DeployError, naming what failed with the end of its log, after taking everything down.
    """
    check_plan(plan)
    there = _there_already(plan, state, lease_s, talk)
    if there is not None:
        return there
    check_ports(plan)
    record = _claim(plan, state, address)
    finished = False
    try:
        deployment = _bring_up(record, state, lease_s, talk)
        finished = True
        return deployment
    except RunError as problem:
        raise DeployError(problem.message, where=problem.where) from problem
    finally:
        if not finished:
            down(plan.name, state, talk)


def _there_already(plan: DeploymentPlan, state: Path, lease_s: float | None, talk: Talk) -> Deployment | None:
    """The deployment of this name if it is up with this plan; what a crash has left of one is taken down.

    Raises: DeployError if it has another plan or another owner, or is not whole.
    """
    record = read_deployment(state, plan.name)
    if record is None:
        return None
    if not (supervised(state, record) if record.kept else alive(record.driver)):
        talk(f"{plan.name}: taking down what a crash has left")
        down(plan.name, state, talk)
        return None
    if not record.kept and record.driver != this_process():
        raise DeployError(f"belongs to process {record.driver.pid}, which has brought it up", where=plan.name)
    take_down = f"testbed down {plan.name}"
    if record.plan != msgspec.convert(msgspec.to_builtins(plan), DeploymentPlan):
        raise DeployError("is up with another plan", where=plan.name, hint=take_down)
    deployment = Deployment(record, state, None if record.kept else lease_s)
    broken = [status.name for status in deployment.status() if status.state != "ready"]
    if broken:
        raise DeployError(f"is up, but {', '.join(broken)} is not ready", where=plan.name, hint=take_down)
    talk(f"{plan.name} is up already")
    return deployment


def _claim(plan: DeploymentPlan, state: Path, address: str | None) -> DeploymentRecord:
    """Write down that this process brings the deployment up, before anything is started."""
    uid = secrets.token_hex(4)
    # Not below the plan's folder: programs put sockets there, and their names may not be longer than 107 bytes.
    temp = str(Path(tempfile.gettempdir()) / f"testbed-{uid}")
    record = DeploymentRecord(plan, uid, address or "", address is None, this_process(), kept=False, temp=temp)
    with locked(state / "deployments" / "lock"):
        if read_deployment(state, plan.name) is not None:
            raise DeployError("is being brought up by another process", where=plan.name)
        write(deployment_path(state, plan.name), record)
    return record


def _bring_up(record: DeploymentRecord, state: Path, lease_s: float | None, talk: Talk) -> Deployment:
    plan = record.plan
    cluster = find(state, plan, record.address or None, talk)
    record = replace(record, address=cluster.address)
    write(deployment_path(state, plan.name), record)
    ray = connect(cluster, state)
    placement = reserve(ray, record)
    for log in [Path(plan.folder, "logs", f"{component.name}.log") for component in plan.components]:
        log.parent.mkdir(parents=True, exist_ok=True)
        log.unlink(missing_ok=True)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    for component in plan.components:
        order = SupervisorOrder(plan.name, record.mark, component, Path(plan.folder), Path(record.temp), state, lease_s,
                                inherited)
        supervise(ray, placement, record, order)
    deployment = Deployment(record, state, lease_s)
    _Ascent(deployment, talk, lease_s).run()
    if lease_s is None:
        deployment.keep()
    return deployment


class _Ascent:
    """The way up: start what can start, look, talk, until all are ready or one has failed."""

    def __init__(self, deployment: Deployment, talk: Talk, lease_s: float | None) -> None:
        self._deployment = deployment
        self._talk = talk
        self._renew_every_s = None if lease_s is None else lease_s / RENEWALS_PER_LEASE
        self._waiting = {component.name: component for component in deployment.plan.components}
        self._loading: dict[str, float] = {}
        self._ready: set[str] = set()

    def run(self) -> None:
        """Raises: DeployError naming the first component that failed, with the end of its log."""
        renewed_s = talked_s = now_s()
        while self._waiting or self._loading:
            self._start()
            self._look()
            if self._renew_every_s is not None and now_s() - renewed_s > self._renew_every_s:
                self._deployment.renew()
                renewed_s = now_s()
            if now_s() - talked_s >= TALK_EVERY_S:
                self._report()
                talked_s = now_s()
            sleep_s(LOOK_EVERY_S)

    def _start(self) -> None:
        for component in [found for found in self._waiting.values() if set(found.needs) <= self._ready]:
            self._talk(f"{component.name}: starting")
            self._deployment.start(component.name)
            del self._waiting[component.name]
            self._loading[component.name] = now_s()

    def _look(self) -> None:
        if not self._deployment.is_there():
            raise DeployError("was taken down meanwhile", where=self._deployment.plan.name)
        for name, began_s in list(self._loading.items()):
            status = self._deployment.component_status(name)
            waited_s = now_s() - began_s
            if status.state == "ready":
                self._talk(f"{name}: ready after {waited_s:.1f} s")
                del self._loading[name]
                self._ready.add(name)
            elif status.state in ENDED or waited_s > self._deployment.component(name).ready.limit_s:
                raise DeployError(failure(status, waited_s), where=name)
        for name in self._ready:
            status = self._deployment.component_status(name)
            if status.state in ENDED:
                raise DeployError(failure(status, None), where=name)

    def _report(self) -> None:
        for name, began_s in self._loading.items():
            self._talk(f"{name}: {now_s() - began_s:.0f} s, loading")
        for component in self._waiting.values():
            missing = [need for need in component.needs if need not in self._ready]
            self._talk(f"{component.name}: waits for {', '.join(missing)}")
