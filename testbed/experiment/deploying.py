"""Hold one deployment for as long as a block of work lasts, and say what it left behind."""

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from testbed.clock import now_s
from testbed.deploy.ascent import up
from testbed.deploy.deployment import Deployment
from testbed.deploy.leftovers import leftovers
from testbed.errors import RunError
from testbed.experiment.arm import warm_up_engines
from testbed.experiment.deployables import check_settings, live_parts, prepare_folder, remove_folder
from testbed.experiment.handoff_proof import prove_handoff
from testbed.experiment.live import Live
from testbed.journal.events import ComponentStarted, Note
from testbed.journal.writer import JournalWriter
from testbed.plan.site import Deployable

Talk = Callable[[str], None]
LEASE_S = 15.0


@dataclass
class Findings:
    """What a run learns of itself on the way: where the time went, settings in force, and what was left behind.

    `left` is None until somebody has looked.
    """

    durations_s: dict[str, float] = field(default_factory=dict)
    settings: dict[str, object] = field(default_factory=dict)
    left: list[str] | None = None

    def add_left(self, found: Iterable[str]) -> None:
        """Somebody has looked, and this was still there."""
        self.left = [*(self.left if self.left is not None else []), *found]

    @contextmanager
    def timed(self, what: str) -> Iterator[None]:
        """Add the time of a part, also when it breaks."""
        began_s = now_s()
        try:
            yield
        finally:
            self.durations_s[what] = round(self.durations_s.setdefault(what, 0.0) + now_s() - began_s, 1)


@dataclass(frozen=True)
class Host:
    """Where deployments of a run live: its folder and journal, the user's state folder, and who listens."""

    run_folder: Path
    journal: JournalWriter
    state: Path
    talk: Talk
    findings: Findings


@contextmanager
def deployed(deployable: Deployable, host: Host, warm_up: Sequence[int]) -> Iterator[Live]:
    """Bring it up, check the settings in force, warm it up; take it down at the end, whatever happened.

    Raises: DeployError when it does not come up; RunError when it runs with other settings than planned, or a part of
    it ended by itself meanwhile.
    """
    channel = prepare_folder(deployable, host.run_folder / "events")
    deployment: Deployment | None = None
    try:
        with host.findings.timed("deployment"):
            deployment = up(deployable.plan, state=host.state, talk=host.talk, lease_s=LEASE_S)
        with (
            deployment.keep_lease(),
            closing(live_parts(deployable, deployment, host.journal, host.run_folder, channel)) as live,
        ):
            _journal_started(deployable, deployment, host.journal)
            host.findings.settings[deployable.plan.name] = check_settings(live)
            live.enter("", 0)  # what comes now belongs to no arm, also not to that of the deployment before
            with host.findings.timed("warm-up"):
                warm_up_engines(live.engines, warm_up, host.run_folder.name, host.talk)
                prove_handoff(live, warm_up, host.run_folder.name)
            try:
                yield live
                live.check_alive()
            finally:
                _remove_keys(live)
    finally:
        with host.findings.timed("teardown"):
            _take_down(deployable, deployment, host)


def _journal_started(deployable: Deployable, deployment: Deployment, journal: JournalWriter) -> None:
    for one in deployment.status():
        if one.pid is not None:
            journal.write(ComponentStarted, component=f"{deployable.plan.name}/{one.name}", component_pid=one.pid)


def _remove_keys(live: Live) -> None:
    """Leave nothing of ours in a Redis that may be somebody else's."""
    if live.keys is None:
        return
    try:
        live.keys.remove()
    except RunError as problem:
        live.journal.write(Note, text=f"keys of this deployment may be left in its backing: {problem}")


def _take_down(deployable: Deployable, deployment: Deployment | None, host: Host) -> None:
    """End it, keep its logs, and look what is left; `deployment` is None when it never came up."""
    try:
        if deployment is not None:
            deployment.down()
    finally:
        # Without a record there is nothing to look by: what is left of a failed start stays unknown, not nothing.
        if deployment is not None:
            found = leftovers(deployment.record, host.state)
            host.findings.add_left(f"{one.kind} {one.what}" for one in found)
        _keep_logs(deployable, host)
        remove_folder(deployable)
        if Path(deployable.site.folder).exists():
            host.findings.add_left([f"file {deployable.site.folder}"])


def _keep_logs(deployable: Deployable, host: Host) -> None:
    """Copy the logs into the run; a disk that is full must not keep anything from being taken down."""
    source = Path(deployable.plan.folder) / "logs"
    if not source.is_dir():
        return
    try:
        shutil.copytree(source, host.run_folder / "logs" / deployable.plan.name, dirs_exist_ok=True)
    except OSError as problem:
        host.talk(f"logs of {deployable.plan.name} could not be kept: {problem}")
