"""Arms on a real engine with a real tier: what is valid, and what each way of breaking it is called."""

from dataclasses import replace
from typing import Any

import pytest

from testbed.errors import RunError
from testbed.experiment.reset import reset_with_proof
from testbed.experiment.watch import Watch
from testbed.journal.events import KvLoadEnded, KvLookup, StepScheduled
from testbed.tiers.redis import RedisKeys
from tests.engine.bench import Bench, Judged, judge

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]


def fault(kind: str, **changes: Any) -> dict[str, Any]:
    return {"kind": kind, "tier": "tier", "trigger": {"every": 2}, "request_class": "doc"} | changes


@pytest.fixture(scope="module")
def clean(bench: Bench) -> Judged:
    return bench.run("clean")


def test_an_arm_without_faults_is_valid_and_loads_from_the_tier(clean: Judged) -> None:
    assert clean.failing() == {}
    assert clean.code == 0
    loads = clean.run.journal.select(KvLoadEnded)
    assert [one for one in loads if one.ok and one.load_bytes > 0 and one.path == "shared_memory_copy"]


def test_the_bytes_of_a_load_are_those_of_its_blocks(clean: Judged, bench: Bench) -> None:
    per_block = bench.plan.kv.block_size * bench.plan.facts.model.kv_bytes_per_token
    for one in clean.run.journal.select(KvLoadEnded):
        assert one.load_bytes == one.blocks * per_block


def test_a_dropped_step_makes_the_ledger_fail(clean: Judged) -> None:
    events = list(clean.run.journal.events)
    events.remove(next(one for one in events if isinstance(one, StepScheduled) and ".clean.0.3" in str(one.work)))
    broken = judge(replace(clean.run, journal=replace(clean.run.journal, events=tuple(events))))
    assert broken.of("ledger_adds_up").status == "FAIL"


def test_a_held_load_waits_and_is_right(bench: Bench) -> None:
    held = bench.run("held", fault("hold", between=["lookup", "load"], **{"for": "500ms"}))
    assert held.failing() == {}


def test_evicted_loads_fail_by_themselves_and_are_recomputed(bench: Bench) -> None:
    evicted = bench.run("evicted", fault("evict", between=["lookup", "load"], hold="500ms"))
    assert evicted.failing() == {}
    failed = [one for one in evicted.run.journal.select(KvLoadEnded) if not one.ok]
    assert len(failed) >= 3
    assert {one.reason for one in failed} == {"load_error"}


def test_loads_that_outlast_the_deadline_are_given_up_and_recomputed(bench: Bench) -> None:
    late = bench.run("timeouts", fault("slow_load", **{"for": "9s"}))
    assert late.failing() == {}
    failed = [one for one in late.run.journal.select(KvLoadEnded) if not one.ok]
    assert {one.reason for one in failed} == {"deadline"}
    assert all(one.given_up_at_ns is not None and one.transfer_ended_at_ns is not None for one in failed)


def test_a_fault_without_effect_makes_the_run_invalid(bench: Bench) -> None:
    nothing = bench.run("nothing", fault("noop"))
    assert nothing.code == 4
    assert nothing.of("fault_fired").status == "UNKNOWN"


def test_a_fault_aimed_at_requests_that_never_load_makes_the_run_invalid(bench: Bench) -> None:
    never = bench.run("never", fault("hold", between=["lookup", "load"], request_class="chat", **{"for": "500ms"}))
    assert never.code == 4
    assert never.of("fault_fired").status == "UNKNOWN"


@pytest.mark.parametrize("pattern", ["zeros", "foreign"])
def test_a_loaded_block_with_wrong_content_is_seen_as_a_wrong_answer(bench: Bench, pattern: str) -> None:
    wrong = bench.run(f"wrong_{pattern}", fault("corrupt", pattern=pattern))
    assert wrong.code == 1
    assert wrong.of("outputs_golden").status == "FAIL"


def test_a_reset_that_leaves_the_backing_full_is_found_out(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RedisKeys, "remove", lambda keys: 0)
    watch = Watch(bench.run_folder / "events", "skipped", 0)
    bench.live.journal.enter("skipped", 0)
    assert bench.live.channel is not None
    bench.live.channel.enter(bench.run_folder / "events", "skipped", 0)
    with pytest.raises(RunError, match="reset not proven") as refused:
        reset_with_proof(bench.live, watch, bench.canary(), f"{bench.run_folder.name}.skipped.0.canary")
    assert refused.value.exit_code == 4


def test_the_guard_gives_no_second_promise_after_a_failure(bench: Bench) -> None:
    again = bench.run("again", fault("evict", between=["lookup", "load"], hold="300ms"))
    later = [one for one in again.run.journal.select(KvLookup) if one.attempt > 1]
    assert all(one.promised_tokens == 0 for one in later)
