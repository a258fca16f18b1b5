"""The probe keeps the contract of orders, with an engine around it as small as it can be."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from testbed.experiment.channel import Channel
from testbed.probe.orders import Orders
from tests.contract_orders import CLAIMS, OrderBench
from tests.probe.fake_engine import running


@pytest.fixture
def orders(tmp_path: Path) -> Iterator[OrderBench]:
    """A stand-in engine with the driver's end of its orders."""
    events = tmp_path / "events"
    first = Orders(journal=str(events), arm="", repetition=0, attempts=1, load_deadline_s=10.0)
    channel = Channel(tmp_path / "orders.json", first)
    with running(tmp_path / "orders.json") as engine:

        def store(count: int) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
            # 12 tokens are 3 blocks of 4, and 2 tokens more are computed each time
            prompts = [tuple(range(100 * number, 100 * number + 14)) for number in range(1, count + 1)]
            return [(prompt, engine.ask(prompt, f"store.{prompt[0]}")) for prompt in prompts]

        yield OrderBench(channel, events, store, engine.ask)


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.__name__)
def test_the_probe_keeps_the_contract_of_orders(orders: OrderBench, claim: Callable[[OrderBench], None]) -> None:
    claim(orders)
