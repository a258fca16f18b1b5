"""A real engine, a real tier and the probe inside keep the contracts that the rest of the testbed relies on."""

from collections.abc import Callable
from pathlib import Path

import pytest

from testbed.drive.endpoint import Endpoint
from testbed.experiment.watch import Watch
from testbed.plan.site import LmcacheAccess
from testbed.tiers.lmcache import LmcachePorts, health_url
from tests import contract_orders, contract_tier
from tests.contract_engine import ask_plainly, drive_forced
from tests.contract_orders import OrderBench
from tests.contract_tier import TierBench
from tests.engine.bench import Bench

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]
ANSWER_TOKENS = 8


def test_a_real_engine_keeps_the_contract_of_an_engine(bench: Bench, tmp_path: Path) -> None:
    endpoint = Endpoint(bench.live.engine.url, bench.live.engine.served_name)
    prompt = bench.plan.facts.tokens[300:340]
    drive_forced(endpoint, prompt, tmp_path)
    ask_plainly(endpoint, prompt)


@pytest.fixture
def tier(bench: Bench) -> TierBench:
    """The deployment as one that stores; its probe journals for the contract alone."""
    assert bench.live.channel is not None
    assert bench.live.tier is not None
    assert isinstance(bench.live.deployable.tier, LmcacheAccess)
    events = bench.run_folder / "events"
    bench.live.channel.enter(events, "contract", 0)
    tokens, length = bench.plan.facts.tokens, 3 * bench.live.tier.chunk_tokens + 5
    prompts = (tokens[5_000 : 5_000 + length], tokens[6_000 : 6_000 + length])
    health = health_url(LmcachePorts(0, bench.live.deployable.tier.http_port, 0))
    return TierBench(bench.live, Watch(events, "contract", 0), prompts, health)


@pytest.mark.parametrize("claim", contract_tier.CLAIMS, ids=lambda claim: claim.__name__)
def test_the_real_tier_keeps_the_contract_of_a_tier(tier: TierBench, claim: Callable[[TierBench], None]) -> None:
    claim(tier)


class Stores:
    """Gives prompts that nobody has asked before, with their answers: in the tier now, and forgotten by the engine."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._given = 0

    def ask(self, prompt: tuple[int, ...], name: str) -> tuple[int, ...]:
        answer = self._bench.live.engine.complete(prompt, ANSWER_TOKENS, name)
        return tuple(answer["choices"][0]["token_ids"])

    def __call__(self, count: int) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        found = []
        for _ in range(count):
            self._given += 1
            start = 10_000 + 200 * self._given
            prompt = self._bench.plan.facts.tokens[start : start + 100]
            found.append((prompt, self.ask(prompt, f"contract.store.0.{self._given}")))
        assert self._bench.live.await_saved() == 0
        self._bench.live.clear_engine()
        return found


@pytest.fixture(scope="module")
def stores(bench: Bench) -> Stores:
    return Stores(bench)


@pytest.mark.parametrize("claim", contract_orders.CLAIMS, ids=lambda claim: claim.__name__)
def test_the_probe_in_a_real_engine_keeps_the_contract_of_orders(
    bench: Bench, stores: Stores, claim: Callable[[OrderBench], None]
) -> None:
    assert bench.live.channel is not None
    claim(OrderBench(bench.live.channel, bench.run_folder / "events", stores, stores.ask))
