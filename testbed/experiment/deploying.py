"""Hold one deployment for as long as a block of work lasts, and say what it left behind."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from testbed.clock import now_s
from testbed.deploy.ascent import up
from testbed.deploy.deployment import Deployment
from testbed.deploy.leftovers import leftovers
from testbed.experiment.arm import warm_up_engine
from testbed.experiment.deployables import check_settings, live_parts, prepare_folder, remove_folder
from testbed.experiment.live import Live
from testbed.journal.events import ComponentStarted
from testbed.journal.writer import JournalWriter
from testbed.plan.colocated import Deployable

Talk = Callable[[str], None]
LEASE_S = 15.0


@dataclass
class Findings:
    """What a run learns of itself on the way: where the time went, settings in force, and what was left behind."""

    durations_s: dict[str, float] = field(default_factory=dict)
    settings: dict[str, object] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)

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

    Raises: DeployError when it does not come up; RunError when it runs with other settings than planned.
    """
    channel = prepare_folder(deployable, host.run_folder / "events")
    with host.findings.timed("deployment"):
        deployment = up(deployable.plan, state=host.state, talk=host.talk, lease_s=LEASE_S)
    try:
        with deployment.keep_lease():
            _journal_started(deployable, deployment, host.journal)
            with closing(live_parts(deployable, deployment, host.journal, host.run_folder, channel)) as live:
                host.findings.settings[deployable.plan.name] = check_settings(live)
                with host.findings.timed("warm-up"):
                    warm_up_engine(live.engine, warm_up, host.run_folder.name, host.talk)
                yield live
                if live.keys is not None:
                    live.keys.remove()
    finally:
        with host.findings.timed("teardown"):
            _take_down(deployable, deployment, host)


def _journal_started(deployable: Deployable, deployment: Deployment, journal: JournalWriter) -> None:
    for one in deployment.status():
        if one.pid is not None:
            journal.write(ComponentStarted, component=f"{deployable.plan.name}/{one.name}", component_pid=one.pid)


def _take_down(deployable: Deployable, deployment: Deployment, host: Host) -> None:
    logs = host.run_folder / "logs" / deployable.plan.name
    logs.mkdir(parents=True, exist_ok=True)
    for component in deployable.plan.components:
        source = Path(deployment.component_status(component.name).log)
        if source.is_file():
            (logs / f"{component.name}.log").write_bytes(source.read_bytes())
    deployment.down()
    remove_folder(deployable)
    host.findings.left += [f"{one.kind} {one.what}" for one in leftovers(deployment.record, host.state)]
