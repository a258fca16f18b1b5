"""Committed topologies on the tiny model: brought up, proven, asked, and taken down again."""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.engines.models import read_shape
from testbed.experiment.deploying import Findings, Host, deployed
from testbed.experiment.facts import corpus_tokens, machine_facts
from testbed.experiment.live import Live
from testbed.journal.reader import Journal, load_journal
from testbed.journal.writer import JournalWriter
from testbed.plan.facts import ModelFacts
from testbed.plan.standing import plan_standing
from testbed.spec.load import load
from testbed.spec.machine import Hardware
from testbed.spec.topology import Topology

ROOT = Path(__file__).parent.parent.parent
ANSWER_TOKENS = 16
LENGTHS = (150, 400, 1200)


@dataclass(frozen=True)
class Stand:
    """A topology that is up: `tokens` to ask it, and the folder of its journal."""

    live: Live
    tokens: tuple[int, ...]
    folder: Path

    def journal(self) -> Journal:
        """All events until now."""
        return load_journal(self.folder)


def prompts(tokens: Sequence[int]) -> list[tuple[int, ...]]:
    """One of some blocks, one of more, and one longer than a small budget of prefill; none begins like another."""
    return [tuple(tokens[1000 * number : 1000 * number + length]) for number, length in enumerate(LENGTHS, start=5)]


def answer(engine: Any, prompt: Sequence[int], name: str, max_tokens: int = ANSWER_TOKENS) -> list[int]:
    """The greedy answer of an engine, or of all through their router."""
    found = engine.complete(prompt, max_tokens, name, {"ignore_eos": True})
    return [int(one) for one in found["choices"][0]["token_ids"]]


@contextmanager
def standing(name: str, model: Path, folder: Path, **settings: Any) -> Iterator[Stand]:
    """A committed topology with the tiny model; `settings` have `__` for each dot. Nothing of it may be left."""
    given = {"model": "tiny", **{key.replace("__", "."): value for key, value in settings.items()}}
    topology = load((ROOT / f"topologies/{name}.yaml").read_text(), Topology, where=name, settings=given).value
    hardware = load((ROOT / "configs/hardware/cpu.yaml").read_text(), Hardware, where="cpu").value
    facts = ModelFacts("tiny", str(model), "float32", read_shape(model).kv_bytes_per_token(4), 4096)
    run, state, called = folder / name, folder / "state", f"t-{name.replace('_', '-')}"
    planned = plan_standing(
        called, str(state / "sites" / called), topology, hardware, facts, machine_facts(), None
    )
    tokens, findings = corpus_tokens(model), Findings()
    with closing(JournalWriter(run / "events", "driver")) as journal:
        host = Host(run, journal, state, print, findings)
        with deployed(planned.deployable, host, tokens[:300]) as live:
            yield Stand(live, tokens, run)
    assert findings.left == []
