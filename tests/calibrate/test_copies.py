"""Copies from shared memory and through loopback are really made, and leave nothing."""

import re
from pathlib import Path

import pytest

from testbed.calibrate.copies import SHARED_MEMORY_COPY, copy_ways
from testbed.calibrate.loopback import LOOPBACK_TCP, loopback_ways
from testbed.calibrate.rates import path_rate
from testbed.errors import DeployError
from testbed.tiers.lmcache import LOAD_PATH

MIB = 1 << 20


def test_each_size_is_copied_plain_and_block_wise_by_one_thread_and_by_all() -> None:
    before = set(Path("/dev/shm").iterdir())
    ways = copy_ways(sizes_mib=(2, 4), tries=10)
    kinds = {re.sub(r"by \d+ thread.*", "", way.label).strip() for way in ways}
    # block-wise, 8 layers x 2 x 128 KiB = 2 MiB a block on all layers, so 2 and 4 MiB are whole blocks
    assert kinds == {
        "plain copy of 2 MiB", "plain copy of 4 MiB", "block-wise copy of 2 MiB", "block-wise copy of 4 MiB",
    }
    assert all(len(way.tries_s) == 10 and way.best_bytes_per_s > 0 for way in ways)
    assert any("by 1 thread" in way.label for way in ways)
    assert set(Path("/dev/shm").iterdir()) <= before


def test_too_little_shared_memory_is_an_error_of_this_machine() -> None:
    with pytest.raises(DeployError, match="too little to measure"):
        copy_ways(sizes_mib=(1 << 30,), tries=10)


def test_loopback_moves_all_bytes_over_one_connection_and_over_several() -> None:
    ways = loopback_ways(size_bytes=2 * MIB, tries=10, chunks=(64 * 1024,))
    assert ways[0].label == "2 MiB in pieces of 64 KiB over 1 connection"
    assert all(way.moved_bytes == 2 * MIB and len(way.tries_s) == 10 for way in ways)
    rate = path_rate(LOOPBACK_TCP, ways)
    assert rate.calibrated_bytes_per_s == max(way.best_bytes_per_s for way in ways)


def test_the_path_of_a_copy_is_called_as_the_tier_calls_it() -> None:
    assert SHARED_MEMORY_COPY == LOAD_PATH
