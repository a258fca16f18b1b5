"""One engine with LMCache and Redis for the whole session."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from testbed.engines.models import build_model
from testbed.experiment.deployables import block_deployable
from testbed.experiment.deploying import Findings, Host, deployed
from testbed.experiment.golden import ask_missing, open_store
from testbed.journal.writer import JournalWriter
from tests.engine.bench import Bench, Salted, tiny_facts, tiny_plan


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny model, built once."""
    return build_model("tiny", tmp_path_factory.mktemp("cache"), print)


@pytest.fixture(scope="session")
def bench(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """A deployment with its golden answers; at the end nothing of it may be left."""
    folder = tmp_path_factory.mktemp("run") / "bench"
    state = tmp_path_factory.mktemp("state")
    (folder / "events").mkdir(parents=True)
    facts = tiny_facts(tiny_model)
    plan = tiny_plan(facts, [{"name": "tier"}])
    findings = Findings()
    with closing(JournalWriter(folder / "events", "driver")) as journal:
        host = Host(folder, journal, state, print, findings)
        deployable = block_deployable(plan, 0, "bench-0", state / "sites" / "bench-0", facts)
        with deployed(deployable, host, facts.tokens[:200]) as live:
            engine: Any = Salted(live)
            store = ask_missing(open_store(folder, {"dtype": "float32"}), plan.workload.requests, engine, print)
            yield Bench(live, plan, store.answers_to(plan.workload.requests), folder)
    assert findings.left == []
