"""Wrong KV in the demo's model shows in its answers, and nothing shows where there is none.

`tests/engine` shows the same for the tiny model.
"""

import pytest

from testbed.journal.events import FaultApplied, KvLoadEnded
from tests.engine.bench import Bench

pytestmark = pytest.mark.timeout(900)


def test_with_nothing_broken_the_demos_model_is_right_and_loads_from_the_tier(smollm2_bench: Bench) -> None:
    clean = smollm2_bench.run("clean")
    assert clean.failing() == {}
    assert clean.code == 0
    assert [one for one in clean.run.journal.select(KvLoadEnded) if one.ok]


@pytest.mark.parametrize("pattern", ["zeros", "foreign"])
def test_a_loaded_block_with_wrong_content_is_a_wrong_answer_of_the_demos_model(
    smollm2_bench: Bench, pattern: str
) -> None:
    fault = {"kind": "corrupt", "pattern": pattern, "tier": "tier", "trigger": {"every": 2}, "request_class": "doc"}
    wrong = smollm2_bench.run(f"wrong_{pattern}", fault)
    assert wrong.run.journal.select(FaultApplied)
    assert wrong.of("outputs_golden").status == "FAIL"
    assert wrong.code == 1
