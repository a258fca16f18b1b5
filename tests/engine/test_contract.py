"""A real engine keeps the contract that the client relies on."""

from pathlib import Path

import pytest

from testbed.drive.endpoint import Endpoint
from tests.contract_engine import ask_plainly, drive_forced
from tests.engine.bench import Bench

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]


def test_a_real_engine_keeps_the_contract_of_an_engine(bench: Bench, tmp_path: Path) -> None:
    endpoint = Endpoint(bench.live.engine.url, bench.live.engine.served_name)
    prompt = bench.plan.facts.tokens[300:340]
    drive_forced(endpoint, prompt, tmp_path)
    ask_plainly(endpoint, prompt)
