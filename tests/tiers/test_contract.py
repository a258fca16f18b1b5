"""The stand-in keeps the contract of a tier, asked by the classes that a run uses; and what is said when it can't."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from testbed.deploy.processes import free_port
from testbed.errors import RunError
from testbed.experiment.live import Live
from testbed.experiment.watch import Watch
from testbed.journal.events import KvLookup
from testbed.journal.writer import JournalWriter
from testbed.tiers.lmcache import LmcachePorts, LmcacheServer, health_url
from testbed.tiers.redis import RedisKeys
from tests.contract_tier import CLAIMS, TierBench
from tests.tiers.fake_lmcache import Levels, serving

MODEL = "site/models/m"
UNIT = 8


def names_of(prompts: Iterable[tuple[int, ...]], unit: int) -> dict[tuple[int, ...], list[str]]:
    """A name for each whole unit that depends on all before it, as the product's own hasher gives, but at once."""
    return {
        prompt: [
            hashlib.sha256(repr(prompt[:end]).encode()).hexdigest() for end in range(unit, len(prompt) + 1, unit)
        ]
        for prompt in prompts
    }


@dataclass
class FakeEngine:
    """Saves each prompt into the tier, and journals what the tier promised for it as the probe does."""

    levels: Levels
    journal: JournalWriter
    url: str = "fake"
    own: set[tuple[int, ...]] = field(default_factory=set)

    def complete(
        self, prompt: Sequence[int], max_tokens: int, request_id: str, extra: Mapping[str, Any] | None = None
    ) -> Any:
        names = names_of([tuple(prompt)], UNIT)[tuple(prompt)]
        promised = 0 if tuple(prompt) in self.own else self.levels.lookup(names)
        self.journal.write(
            KvLookup, request_id=request_id, attempt=1, prompt_tokens=len(prompt), local_tokens=0,
            promised_tokens=promised, tier_tokens=promised, is_async=True, first_asked_at_ns=1, answered_at_ns=2,
        )
        self.own.add(tuple(prompt))
        self.levels.save(names)

    def reset_prefix_cache(self) -> bool:
        self.own.clear()
        return True


@pytest.fixture
def levels(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Levels]:
    """Two empty levels, the second of them in a real Redis."""
    monkeypatch.setattr("testbed.tiers.lmcache.chunk_hashes", names_of)
    with Redis.from_url(url) as backing:
        yield Levels(backing, MODEL, UNIT)


@pytest.fixture
def tier(url: str, levels: Levels, tmp_path: Path) -> Iterator[TierBench]:
    """A stand-in engine above a stand-in tier."""
    journal = JournalWriter(tmp_path / "events", "driver")
    journal.enter("contract", 0)
    engine: Any = FakeEngine(levels, journal)
    with (
        serving(levels) as port,
        closing(LmcacheServer(port, MODEL, UNIT)) as server,
        closing(RedisKeys(url, f"{MODEL}@")) as keys,
    ):
        nowhere: Any = None
        live = Live(nowhere, engine, tmp_path / "log", journal, tmp_path, server, keys)
        # 29 tokens: three units of 8, and 5 more
        prompts = (tuple(range(100, 129)), tuple(range(200, 229)))
        health = health_url(LmcachePorts(0, port, 0))
        yield TierBench(live, Watch(tmp_path / "events", "contract", 0), prompts, health)
        keys.remove()


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.__name__)
def test_the_stand_in_keeps_the_contract_of_a_tier(tier: TierBench, claim: Callable[[TierBench], None]) -> None:
    claim(tier)


def test_what_is_still_being_written_is_seen(tier: TierBench, levels: Levels) -> None:
    levels.in_flight = 3
    assert tier.tier.saves_in_flight() == 3


def test_a_server_that_refuses_is_quoted(tier: TierBench, levels: Levels) -> None:
    levels.broken = True
    with pytest.raises(RunError, match=r"lmcache: POST /cache/clear answered 503: \{\}"):
        tier.tier.clear_memory()


def test_a_server_that_is_not_there_is_said_at_once() -> None:
    with closing(LmcacheServer(free_port("127.0.0.1"), MODEL, UNIT, limit_s=1.0)) as server:
        with pytest.raises(RunError, match="GET /status"):
            server.saves_in_flight()
        with pytest.raises(RunError, match="GET /metrics"):
            server.counters()
