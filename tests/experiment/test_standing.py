"""`up` leaves a deployment that keeps what it promises, or none."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from testbed.errors import RunError
from testbed.experiment import standing
from testbed.experiment.folders import Folders
from testbed.experiment.live import Live
from testbed.experiment.standing import Asked, deploy_standing
from testbed.experiment.topologies import StandingFacts
from testbed.journal.writer import JournalWriter
from tests.plan.sites import SMALL, planned


@dataclass
class FakeDeployment:
    """What `up` gives: kept or not."""

    log: list[str] = field(default_factory=list)

    @contextmanager
    def keep_lease(self) -> Iterator[None]:
        yield

    def keep(self) -> None:
        self.log.append("kept")


class Engine:
    """One that answers, and is counted."""

    def __init__(self, asked: list[str]) -> None:
        self.url = "fake"
        self._asked = asked

    def complete(self, prompt: object, max_tokens: int, request_id: str, extra: object = None) -> Any:
        self._asked.append(request_id.rpartition(".")[2])
        return {"choices": [{"token_ids": [1]}]}

    def close(self) -> None:
        pass


class Bench:
    """`deploy_standing` with all that is real replaced."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, topology: str) -> None:
        self.deployment = FakeDeployment()
        self.said: list[str] = []
        self.warmed: list[str] = []
        self.folders = Folders(folder / "cache", folder / "state", folder / "results")
        self.there = False
        found: Any = SimpleNamespace(topology=SimpleNamespace(name="t"), model=SimpleNamespace(source="tiny"))
        made = planned(topology)
        put = monkeypatch.setattr
        put(standing, "read_topology", lambda *given: found)
        put(standing, "plan_found", lambda *given: (made, StandingFacts(SMALL, tuple(range(500)))))
        put(standing, "read_deployment", lambda *given: object() if self.there else None)
        put(standing, "prepare_folder", lambda *given: None)
        put(standing, "up", lambda *given, **named: self.deployment)
        put(standing, "JournalWriter", lambda *given: JournalWriter(folder / "events", "driver"))
        put(standing, "check_settings", lambda live: None)
        put(standing, "prove_handoff", lambda *given: ())
        put(standing, "take_down", lambda name, *given: self.deployment.log.append(f"down {name}"))

        def live_parts(deployable: Any, deployment: Any, journal: JournalWriter, *given: object) -> Live:
            first, *others = (Engine(self.warmed) for _ in made.deployable.engines)
            parts: Any = {"others": tuple(others)}
            engine: Any = first
            return Live(made.deployable, engine, folder, journal, folder, **parts)

        put(standing, "live_parts", live_parts)

    def up(self) -> str:
        return deploy_standing(Asked("t", {}, "cpu"), self.folders, self.said.append)


def breaks(*given: object) -> None:
    raise RunError("settings were not taken")


def test_what_is_up_is_kept_and_told_how_to_ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path, monkeypatch, "pd_tier")
    assert bench.up().startswith("curl -s http://127.0.0.1:18105/v1/completions")
    assert bench.deployment.log == ["kept"]
    assert bench.warmed == ["0", "1"], "each engine has answered once"


def test_one_engine_alone_is_asked_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path, monkeypatch, "colocated")
    assert bench.up().startswith("curl -s http://127.0.0.1:18100/")
    assert bench.warmed == []


@pytest.mark.parametrize("part", ["check_settings", "prove_handoff"])
def test_what_does_not_keep_its_promise_is_taken_down(
    part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path, monkeypatch, "pd_tier")
    monkeypatch.setattr(standing, part, breaks)
    with pytest.raises(RunError, match="not taken"):
        bench.up()
    assert bench.deployment.log == ["down t"]


def test_what_was_there_before_is_left_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path, monkeypatch, "pd_tier")
    bench.there = True
    monkeypatch.setattr(standing, "check_settings", breaks)
    with pytest.raises(RunError):
        bench.up()
    assert bench.deployment.log == []
