"""The memory arithmetic, with sums done by hand."""

import pytest

from testbed.errors import DeployError
from testbed.plan.memory import EngineKvPlan, check_memory, engine_kv


def test_the_engines_kv_is_the_wanted_share_of_the_documents_in_whole_blocks() -> None:
    # 0.4 x 8,000 tokens = 3,200 tokens = 50 blocks of 64; x 46,080 B = 147,456,000 B
    kv = engine_kv(0.4, 8000, 64, 46_080, max_model_len=1024)
    assert (kv.num_blocks, kv.tokens, kv.kv_bytes) == (50, 3200, 147_456_000)


def test_the_longest_request_always_fits_with_a_block_to_spare() -> None:
    # 0.1 x 1,000 tokens = 100 tokens = 2 blocks; 1,024 tokens of context are 16 blocks, and one more
    assert engine_kv(0.1, 1000, 64, 46_080, max_model_len=1024).num_blocks == 17


def test_the_line_of_the_plan_shows_both_sums() -> None:
    line = EngineKvPlan(50, 64, 8000, 46_080).text()
    assert "50 blocks x 64 tokens = 3200 tokens x 46080 B = 147456000 B" in line
    assert "documents: 8000 tokens x 46080 B = 368640000 B; share 0.40" in line


def test_a_plan_that_fits_shows_its_sum() -> None:
    # 1 GiB + 2 GiB = 3 GiB of 4 GiB
    text = check_memory({"engine": 2**30, "tier": 2 * 2**30}, 4 * 2**30)
    assert text == "memory: engine 1.00 + tier 2.00 = 3.00 GiB of 4.00 GiB available"


def test_a_plan_that_does_not_fit_is_refused_with_its_sum() -> None:
    with pytest.raises(DeployError, match=r"engine 3.00 \+ tier 2.00 = 5.00 GiB of 4.00 GiB"):
        check_memory({"engine": 3 * 2**30, "tier": 2 * 2**30}, 4 * 2**30)
