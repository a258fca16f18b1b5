"""What a deployment leaves is looked for, whatever happened; a part that ended by itself ends the run."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from testbed.deploy.leftovers import Left
from testbed.deploy.state import ComponentStatus
from testbed.errors import DeployError, RunError
from testbed.experiment import deploying
from testbed.experiment.deploying import Findings, Host, deployed
from testbed.experiment.live import Live
from testbed.journal.events import ComponentExited
from testbed.journal.reader import load_journal
from testbed.journal.writer import JournalWriter
from testbed.missing import Missing


@dataclass
class FakeDeployment:
    """A deployment of one engine, whose state and end are set by hand."""

    state: str = "ready"
    ends_well: bool = True
    record: str = "record"
    log: list[str] = field(default_factory=list)

    def status(self) -> list[ComponentStatus]:
        return [ComponentStatus("engine-0", self.state, None, -9, Missing("gone"), "")]

    @contextmanager
    def keep_lease(self) -> Iterator[None]:
        yield

    def down(self) -> None:
        self.log.append("down")
        if not self.ends_well:
            raise DeployError("still there")


class Bench:
    """`deployed` with all that is real replaced."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, deployment: FakeDeployment) -> None:
        self.findings = Findings()
        self.folder = folder
        self.left: list[Left] = []
        self.journal = JournalWriter(folder / "events", "driver")
        self.journal.enter("tier", 0)
        site = folder / "site"
        (site / "logs").mkdir(parents=True)
        (site / "logs" / "engine-0.log").write_text("its last words")
        plan: Any = type("Plan", (), {"name": "d", "folder": str(site), "components": ()})()
        self.deployable: Any = type("D", (), {"plan": plan, "site": type("S", (), {"folder": str(site)})()})()
        engine: Any = type("E", (), {"close": lambda self: None})()
        live = Live(self.deployable, engine, folder, self.journal, folder, deployment=deployment)  # type: ignore[arg-type]
        monkeypatch.setattr(deploying, "prepare_folder", lambda *given: None)
        monkeypatch.setattr(deploying, "up", lambda *given, **named: deployment)
        monkeypatch.setattr(deploying, "live_parts", lambda *given: live)
        monkeypatch.setattr(deploying, "check_settings", lambda given: {})
        monkeypatch.setattr(deploying, "warm_up_engines", lambda *given: None)
        self.proven_at: list[tuple[str, int]] = []
        proven = self.proven_at
        monkeypatch.setattr(deploying, "prove_handoff", lambda found, *given: proven.append(found.journal.place))
        monkeypatch.setattr(deploying, "leftovers", lambda *given: self.left)

    def run(self) -> None:
        host = Host(self.folder, self.journal, self.folder / "state", lambda text: None, self.findings)
        with deployed(self.deployable, host, (1,)):
            pass


def test_before_anybody_looked_nothing_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path, monkeypatch, FakeDeployment())
    assert bench.findings.left is None
    bench.run()
    assert bench.findings.left == []
    assert (tmp_path / "logs" / "d" / "engine-0.log").read_text() == "its last words"


def test_what_is_left_is_told_also_when_taking_down_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path, monkeypatch, FakeDeployment(ends_well=False))
    bench.left = [Left("port", "18100")]
    with pytest.raises(DeployError, match="still there"):
        bench.run()
    assert bench.findings.left == ["port 18100"]


def test_an_engine_that_ended_by_itself_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deployment = FakeDeployment(state="exited")
    with pytest.raises(RunError, match=r"engine-0 \(exited, status -9\)"):
        Bench(tmp_path, monkeypatch, deployment).run()
    [event] = load_journal(tmp_path).select(ComponentExited)
    assert (event.component, event.exit_status, event.expected) == ("d/engine-0", -9, False)
    assert deployment.log == ["down"]


def test_logs_that_can_not_be_kept_keep_nothing_from_being_taken_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployment = FakeDeployment()
    bench = Bench(tmp_path, monkeypatch, deployment)

    def full(*given: object, **named: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("testbed.experiment.deploying.shutil.copytree", full)
    bench.run()
    assert deployment.log == ["down"]
    assert bench.findings.left == []


def test_the_folder_of_a_failed_start_goes_too_and_its_log_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path, monkeypatch, FakeDeployment())

    def fails(*given: object, **named: object) -> None:
        raise DeployError("engine-0 ended")

    monkeypatch.setattr(deploying, "up", fails)
    with pytest.raises(DeployError, match="engine-0 ended"):
        bench.run()
    assert bench.findings.left is None, "nobody could look"
    assert not (tmp_path / "site").exists()
    assert (tmp_path / "logs" / "d" / "engine-0.log").exists()


def test_what_comes_before_an_arm_belongs_to_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path, monkeypatch, FakeDeployment())
    assert bench.journal.place == ("tier", 0), "the arm of the deployment before"
    bench.run()
    assert bench.proven_at == [("", 0)]
