"""What becomes of an engine when its probe can't do its own work."""

from pathlib import Path

import pytest

from testbed.clock import wait_for
from tests.engine.bench import Bench

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]


def test_an_engine_whose_probe_meets_a_full_disk_serves_on_and_says_so_once(bench: Bench, tmp_path: Path) -> None:
    assert bench.live.channel is not None
    events = bench.run_folder / "events"
    bench.live.channel.enter(events, "before", 0)
    prompt = bench.plan.facts.tokens[40_000:40_150]
    right = bench.live.engine.complete(prompt, 8, "full.before.0.0")["choices"][0]["token_ids"]
    assert bench.live.await_saved() == 0
    shards = [path.name for path in events.glob("probe-*.jsonl")]
    for name in shards:
        (tmp_path / name).symlink_to("/dev/full")
    try:
        for number in range(3):
            bench.live.clear_engine()
            bench.live.channel.enter(tmp_path, f"full-{number}", 0)
            answer = bench.live.engine.complete(prompt, 8, f"full.full.0.{number}")
            assert answer["choices"][0]["token_ids"] == right
        assert len(shards) == 2
        told = f"writes no more events to {tmp_path}"
        wait_for(lambda: bench.live.engine_log.read_text().count(told) >= 2, limit_s=10, what="a word in the log")
        assert bench.live.engine_log.read_text().count(told) == 2, "once for each half"
    finally:
        bench.live.channel.enter(events, "after", 0)
