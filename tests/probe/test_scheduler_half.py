"""The probe's scheduler side: what it answers the scheduler, and what it journals."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from testbed.journal.events import FaultApplied, KvAborted, KvLookup, KvReserve, KvSaved, StepScheduled
from testbed.journal.reader import Journal, load_journal
from testbed.probe.orders import Aim, Orders, write_orders
from testbed.probe.record import Record
from testbed.probe.scheduler_half import SchedulerHalf
from testbed.probe.ways import Way
from tests.probe.fakes import Cached, FakeBlocks, FakeRequest, FakeStep, New

BLOCK = 16


class Bench:
    """A scheduler half with an order file and a journal in a temporary folder, and a clock that is moved by hand."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.now_s = 100.0
        monkeypatch.setattr("testbed.probe.scheduler_half.time.monotonic_ns", lambda: int(self.now_s * 1e9))
        self.order()
        self.half = SchedulerHalf(Record(folder / "orders.json", "probe"), BLOCK)

    def order(self, **changes: Any) -> None:
        journal = str(self.folder / "events")
        orders: dict[str, Any] = {
            "journal": journal,
            "arm": "a",
            "repetition": 0,
            "attempts": 1,
            "load_deadline_s": 2.0,
        }
        write_orders(self.folder / "orders.json", Orders(**(orders | changes)))

    def ask(self, name: str, answer: tuple[int | None, bool], local: int = 0) -> tuple[int | None, bool]:
        return self.half.lookup(FakeRequest(engine_id(name)), local, lambda: answer)

    def journal(self) -> Journal:
        return load_journal(self.folder)


def engine_id(name: str) -> str:
    """The engine's own id of our request."""
    return f"cmpl-{name}-0-0123abcd"


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(tmp_path, monkeypatch)


def hold(**changes: Any) -> Aim:
    usual: dict[str, Any] = {"fault": "hold-0", "action": "hold", "seconds": 1.0, "nth": 1}
    return Aim(**(usual | changes))


def test_a_promise_of_the_tier_is_passed_on_and_journalled_once(bench: Bench) -> None:
    assert bench.ask("r", (None, True)) == (None, True)
    assert bench.ask("r", (64, True), local=16) == (64, True)
    assert bench.ask("r", (64, True), local=16) == (64, True)
    [event] = bench.journal().select(KvLookup)
    assert (event.request_id, event.local_tokens, event.promised_tokens, event.reason) == ("r", 16, 64, "")


def test_a_lookup_that_outlasts_the_deadline_becomes_a_miss(bench: Bench) -> None:
    assert bench.ask("r", (None, True)) == (None, True)
    bench.now_s += 2.1
    assert bench.ask("r", (None, True)) == (0, False)
    assert bench.ask("r", (64, True)) == (0, False), "given up once, it stays given up"
    assert [one.reason for one in bench.journal().select(KvLookup)] == ["deadline"]


def test_a_held_request_waits_and_then_gets_its_promise_once(bench: Bench) -> None:
    bench.order(aims=[hold()])
    assert bench.ask("r", (64, True)) == (None, True)
    bench.now_s += 0.9
    assert bench.ask("r", (64, True)) == (None, True)
    bench.now_s += 0.2
    assert bench.ask("r", (0, False)) == (64, True), "the promise kept, not a new answer of the tier"
    began, ended = bench.journal().select(FaultApplied)
    assert (began.phase, ended.phase) == ("began", "ended")
    assert ended.held_s == pytest.approx(1.1)


def test_only_each_third_eligible_load_is_held(bench: Bench) -> None:
    names = ["a", "x", "b", "c", "d", "e", "f"]
    bench.order(aims=[hold(nth=None, every=3, requests=["a", "b", "c", "d", "e", "f"])])
    held = [name for name in names if bench.ask(name, (64, True)) == (None, True)]
    assert held == ["c", "f"]


def test_a_miss_is_never_struck(bench: Bench) -> None:
    bench.order(aims=[hold()])
    assert bench.ask("r", (0, False)) == (0, False)
    assert bench.ask("s", (64, True)) == (None, True)


def test_a_hold_that_awaits_its_release_lasts_until_then(bench: Bench) -> None:
    aim = hold(await_release=True)
    bench.order(aims=[aim], load_deadline_s=None)
    bench.ask("r", (64, True))
    bench.now_s += 3.0
    assert bench.ask("r", (64, True)) == (None, True)
    bench.order(aims=[aim], released=["r"], load_deadline_s=None)
    assert bench.ask("r", (64, True)) == (64, True)


def test_a_hold_that_nobody_releases_ends_by_itself(bench: Bench) -> None:
    # 1 s of hold and 5 s in which a release may still come
    bench.order(aims=[hold(await_release=True)], load_deadline_s=None)
    bench.ask("r", (64, True))
    bench.now_s += 6.1
    assert bench.ask("r", (64, True)) == (64, True)


def test_a_held_request_goes_on_when_its_fault_is_disarmed(bench: Bench) -> None:
    bench.order(aims=[hold(seconds=50.0)], load_deadline_s=None)
    bench.ask("r", (64, True))
    bench.order(load_deadline_s=None)
    assert bench.ask("r", (64, True)) == (64, True)


def test_aims_die_at_their_dead_man_time(bench: Bench) -> None:
    bench.order(aims=[hold()], expires_at_ns=1)
    assert bench.ask("r", (64, True)) == (64, True)


def test_the_deadline_counts_while_a_request_is_held(bench: Bench) -> None:
    bench.order(aims=[hold(seconds=9.0)])
    bench.ask("r", (64, True))
    bench.now_s += 2.5
    assert bench.ask("r", (64, True)) == (0, False)
    [event] = bench.journal().select(KvLookup)
    assert (event.reason, event.tier_tokens, event.promised_tokens) == ("deadline", 64, 0)


def test_the_tier_is_asked_again_when_the_local_hit_changed_during_a_hold(bench: Bench) -> None:
    bench.order(aims=[hold()])
    bench.ask("r", (64, True), local=0)
    bench.now_s += 1.1
    assert bench.ask("r", (48, True), local=16) == (48, True)


def load_once(bench: Bench, name: str, ask: Callable[[], Any] | None = None) -> None:
    request = FakeRequest(engine_id(name))
    bench.half.lookup(request, 16, lambda: (64, True))
    bench.half.reserved(request, FakeBlocks([7, 1, 2, 3, 4, 9]), 64)


def test_only_the_blocks_to_be_loaded_go_to_the_worker(bench: Bench) -> None:
    load_once(bench, "r")
    [order] = bench.half.step(FakeStep({}, [], Cached())).values()
    # 16 tokens are local: block 7; the next 64 tokens are four blocks of 16
    assert order.block_ids == (1, 2, 3, 4)
    assert order.deadline_at_ns == 102_000_000_000
    [event] = bench.journal().select(KvReserve)
    assert (event.tokens, event.blocks) == (64, 4)


def test_a_request_whose_load_failed_is_promised_nothing_more(bench: Bench) -> None:
    load_once(bench, "r")
    bench.half.ended({engine_id("r")}, set(), {3})
    assert bench.ask("r", (64, True), local=16) == (0, False)
    last = bench.journal().select(KvLookup)[-1]
    assert (last.attempt, last.tier_tokens, last.promised_tokens, last.reason) == (2, 64, 0, "attempts")


def test_a_preempted_request_may_load_again(bench: Bench) -> None:
    load_once(bench, "r")
    bench.half.ended({engine_id("r")}, set(), set())
    assert bench.ask("r", (64, True), local=16) == (64, True)


def test_a_failure_of_other_blocks_is_not_this_requests_failure(bench: Bench) -> None:
    load_once(bench, "r")
    bench.half.ended({engine_id("r")}, set(), {7, 99})
    assert bench.ask("r", (64, True), local=16) == (64, True)


def test_a_request_that_ends_during_its_load_is_an_abort(bench: Bench) -> None:
    load_once(bench, "r")
    bench.half.finished(FakeRequest(engine_id("r")))
    assert [one.stage for one in bench.journal().select(KvAborted)] == ["load"]


def test_a_request_that_ends_while_held_is_let_go(bench: Bench) -> None:
    bench.order(aims=[hold()])
    bench.ask("r", (64, True))
    bench.half.finished(FakeRequest(engine_id("r")))
    assert [one.phase for one in bench.journal().select(FaultApplied)] == ["began", "aborted"]


def test_steps_are_numbered_without_gaps_and_empty_ones_left_out(bench: Bench) -> None:
    a, b = engine_id("a"), engine_id("b")
    bench.half.step(FakeStep({a: 5}, [New(a, 16)], Cached()))
    bench.half.step(FakeStep({}, [], Cached()))
    bench.half.step(FakeStep({a: 1, b: 3}, [New(b, 0)], Cached([a], [21])))
    first, second = bench.journal().select(StepScheduled)
    assert (first.step, first.work, first.total_tokens) == (0, [("a", 16, 5)], 5)
    assert (second.step, second.work, second.total_tokens) == (1, [("b", 0, 3), ("a", 21, 1)], 4)


def test_a_promise_that_is_not_whole_blocks_is_reserved_with_its_last_part_of_one(bench: Bench) -> None:
    request = FakeRequest(engine_id("r"))
    bench.half.lookup(request, 16, lambda: (37, True))
    bench.half.reserved(request, FakeBlocks([7, 1, 2, 3, 4]), 37, Way("loopback_tcp", background=True))
    [order] = bench.half.step(FakeStep({}, [], Cached())).values()
    # 16 local tokens are block 7; tokens 16 to 53 lie in blocks 1, 2 and, in part, 3
    assert (order.block_ids, order.path, order.background) == ((1, 2, 3), "loopback_tcp", True)


def load_within_the_step(bench: Bench, name: str) -> None:
    """What a connector promises that loads before the engine goes on."""
    request = FakeRequest(engine_id(name))
    bench.half.lookup(request, 16, lambda: (64, False))
    bench.half.reserved(request, FakeBlocks([7, 1, 2, 3, 4, 9]), 64)


def test_the_worker_is_told_that_a_load_is_over_within_its_step(bench: Bench) -> None:
    load_within_the_step(bench, "r")
    [order] = bench.half.step(FakeStep({}, [], Cached())).values()
    assert not order.is_async
    assert not bench.journal().select(KvLookup)[0].is_async


def test_failed_blocks_are_all_that_is_told_of_a_load_within_its_step(bench: Bench) -> None:
    load_within_the_step(bench, "r")
    bench.half.ended(set(), set(), {99})
    assert bench.ask("r", (64, False), local=16) == (64, False)
    bench.half.reserved(FakeRequest(engine_id("r")), FakeBlocks([7, 1, 2, 3, 4, 9]), 64)
    bench.half.ended(set(), set(), {3})
    assert bench.ask("r", (64, False), local=16) == (0, False)


def test_a_request_that_ends_after_a_load_within_its_step_is_no_abort(bench: Bench) -> None:
    load_within_the_step(bench, "r")
    bench.half.finished(FakeRequest(engine_id("r")))
    assert bench.journal().select(KvAborted) == []


def test_a_failure_that_is_told_in_pieces_counts_once(bench: Bench) -> None:
    bench.order(attempts=2)
    load_once(bench, "r")
    bench.half.ended(set(), set(), {3})
    bench.half.ended({engine_id("r")}, {engine_id("r")}, {4})
    assert bench.ask("r", (64, True), local=16) == (64, True), "one failure of two that are allowed"
    bench.half.reserved(FakeRequest(engine_id("r")), FakeBlocks([7, 1, 2, 3, 4, 9]), 64)
    bench.half.ended({engine_id("r")}, {engine_id("r")}, set())
    assert bench.ask("r", (64, True), local=16) == (0, False)


def test_a_failure_that_is_told_before_the_load_has_ended_is_known_afterwards(bench: Bench) -> None:
    load_once(bench, "r")
    bench.half.ended(set(), set(), {3})
    bench.half.ended({engine_id("r")}, set(), set())
    assert bench.ask("r", (64, True), local=16) == (0, False)


def test_a_save_job_is_told_of_when_all_workers_have_ended_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path, monkeypatch)
    half = SchedulerHalf(Record(tmp_path / "orders.json", "probe"), BLOCK, workers=2)
    half.saving({7: engine_id("r"), 8: engine_id("s")})
    half.saved({7: 1, 8: 2, 99: 2})
    half.saved({7: 1})
    assert [one.request_id for one in bench.journal().select(KvSaved)] == ["s", "r"]
