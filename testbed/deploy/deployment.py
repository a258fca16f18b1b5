"""A deployment that is there: renew its lease, signal and restart its parts, take it down."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from testbed.clock import polls
from testbed.deploy.cluster import Cluster, call, connect
from testbed.deploy.records import DeploymentRecord, deployment_path, deployments, read_deployment, write
from testbed.deploy.state import ENDED, ComponentStatus, component_status
from testbed.deploy.supervisor import tail
from testbed.deploy.takedown import down
from testbed.errors import DeployError, RunError
from testbed.plan.component import Component, DeploymentPlan

LOOK_EVERY_S = 0.1
TAIL_LINES = 15
RENEWALS_PER_LEASE = 5
RENEW_EVERY_S = 1.0


class Deployment:
    """A deployment that is up. All methods may be called from several threads."""

    def __init__(self, record: DeploymentRecord, state: Path, lease_s: float | None) -> None:
        self._record = record
        self._state = state
        self._lease_s = lease_s
        self._ending = threading.Event()

    @property
    def record(self) -> DeploymentRecord:
        """What is written down about it; `leftovers` wants it, also after `down`."""
        return self._record

    @property
    def plan(self) -> DeploymentPlan:
        """What was asked for."""
        return self._record.plan

    def is_there(self) -> bool:
        """Whether it is still written down; `down` from elsewhere ends that."""
        record = read_deployment(self._state, self.plan.name)
        return record is not None and record.uid == self._record.uid

    def component(self, name: str) -> Component:
        """One component of the plan.

        Raises: DeployError if there is none of that name.
        """
        for component in self.plan.components:
            if component.name == name:
                return component
        known = ", ".join(component.name for component in self.plan.components)
        raise DeployError(f"has no component {name!r}; it has {known}", where=self.plan.name)

    def status(self) -> list[ComponentStatus]:
        """How each component is, in the order of the plan."""
        return [component_status(self._state, self.plan.name, component.name) for component in self.plan.components]

    def component_status(self, name: str) -> ComponentStatus:
        """How one component is."""
        return component_status(self._state, self.plan.name, self.component(name).name)

    def _call(self, component: str, method: str, *arguments: object) -> object:
        name = self.component(component).name
        ray = connect(Cluster(self._record.address, self._record.own_head), self._state)
        return call(ray, f"{self.plan.name}/{name}", method, *arguments)

    def renew(self) -> None:
        """Let the lease run anew, if there is one.

        Raises: RunError if a supervisor does not answer.
        """
        problems = []
        for component in self.plan.components if self._lease_s is not None else ():
            try:
                self._call(component.name, "renew", self._lease_s)
            except RunError as problem:
                # One that is dead must not cost the others their lease.
                problems.append(problem)
        if problems:
            raise problems[0]

    @contextmanager
    def keep_lease(self) -> Iterator[None]:
        """Renew the lease in the background.

        Raises: RunError at the end if it could not be renewed at last, for then a part of the deployment is gone.
        """
        over = threading.Event()
        problems: list[RunError | DeployError] = []

        def renewals() -> None:
            while not over.wait(RENEW_EVERY_S if self._lease_s is None else self._lease_s / RENEWALS_PER_LEASE):
                try:
                    self.renew()
                    problems.clear()
                except (RunError, DeployError) as problem:
                    if not self._ending.is_set():
                        problems.append(problem)

        thread = threading.Thread(target=renewals, name="lease", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
        if problems:
            raise RunError(f"its lease could not be renewed: {problems[0]}", where=self.plan.name)

    def keep(self) -> None:
        """Let it stay until `down`, whatever becomes of this process.

        Raises: RunError if it is gone, or a supervisor does not answer.
        """
        if not self.is_there():
            raise RunError("was taken down meanwhile", where=self.plan.name)
        self._lease_s = None
        for component in self.plan.components:
            self._call(component.name, "renew", None)
        self._record = replace(self._record, kept=True)
        write(deployment_path(self._state, self.plan.name), self._record)

    def start(self, component: str) -> None:
        """Start a component's tree if it does not run; does not wait until it is ready."""
        self._call(component, "start")

    def signal(self, component: str, signum: int, *, whole_tree: bool = True) -> int:
        """Signal a component's process tree, or its main process alone; return how many processes got it."""
        return int(str(self._call(component, "signal", int(signum), whole_tree)))

    def stop(self, component: str) -> None:
        """End a component's tree; `restart` starts it again."""
        self._call(component, "stop")

    def restart(self, component: str) -> None:
        """End a component's tree, start it anew and wait until it is ready.

        Raises: RunError with the end of its log if it does not become ready.
        """
        self._call(component, "restart")
        limit_s = self.component(component).ready.limit_s
        for _ in polls(limit_s, LOOK_EVERY_S):
            status = self.component_status(component)
            if status.state == "ready":
                return
            if status.state in ENDED:
                break
        raise RunError(failure(self.component_status(component), limit_s), where=component)

    def tail(self, component: str, line_count: int = TAIL_LINES) -> list[str]:
        """The last lines of a component's log."""
        return tail(Path(self.component_status(component).log), line_count)

    def down(self, talk: Callable[[str], None] = lambda text: None) -> None:
        """Take it down; see `takedown.down`."""
        self._ending.set()
        down(self.plan.name, self._state, talk)


def find_deployment(name: str, state: Path) -> Deployment:
    """The deployment of this name, to restart, signal or read its parts.

    Raises: DeployError if there is none.
    """
    record = read_deployment(state, name)
    if record is None:
        known = ", ".join(found.plan.name for found in deployments(state)) or "none is up"
        raise DeployError(f"there is no deployment {name!r} ({known})", hint="testbed status")
    return Deployment(record, state, None)


def failure(status: ComponentStatus, waited_s: float | None) -> str:
    """What happened to a component, and the last lines of its log."""
    after = "" if waited_s is None else f" after {waited_s:.0f} s"
    happened = {"exited": f"ended with status {status.exit_status}{after}", "loading": f"was not ready{after}"}
    what = happened.get(status.state, f"is {status.state}{after}")
    lines = tail(Path(status.log), TAIL_LINES) if status.log else []
    return "\n".join([f"{what}; its log ends with" if lines else f"{what}; its log is empty", *lines])
