"""The probe's worker side: when a load's end is reported, and what is journalled of it."""

from pathlib import Path
from typing import Any

import pytest

from testbed.journal.events import FaultApplied, KvLoadBegan, KvLoadEnded, KvSaved
from testbed.journal.reader import Journal, load_journal
from testbed.probe.orders import Aim, Orders, write_orders
from testbed.probe.record import Record
from testbed.probe.scheduler_half import LoadOrder
from testbed.probe.worker_half import WorkerHalf
from tests.probe.fakes import BLOCKS, FakeCache

ENGINE_ID = "cmpl-r-0-0123abcd"


class Bench:
    """A worker half with orders and a journal in a temporary folder, and a clock that is moved by hand."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.now_s = 100.0
        monkeypatch.setattr("testbed.probe.worker_half.time.monotonic_ns", lambda: int(self.now_s * 1e9))
        self.order([])
        self.half = WorkerHalf(Record(folder / "orders.json", "probe"), "shared_memory_copy")
        self.cache = FakeCache()
        self.half.registered({"layer": self.cache}, BLOCKS)

    def order(self, aims: list[Aim]) -> None:
        orders = Orders(journal=str(self.folder / "events"), arm="a", repetition=0, attempts=1, aims=aims)
        write_orders(self.folder / "orders.json", orders)

    def begin(self, engine_id: str = ENGINE_ID, takes_s: float = 0.0, **changes: Any) -> None:
        """One pass in which the load begins; the real connector takes `takes_s` over it."""
        order: dict[str, Any] = {
            "request_id": engine_id.split("-")[1],
            "attempt": 1,
            "block_ids": (2, 3),
            "deadline_at_ns": None,
            "slow_s": 0.0,
            "slow_fault": "",
            "corrupt": "",
            "corrupt_fault": "",
        }
        self.half.bound({engine_id: LoadOrder(**(order | changes))})
        self.half.load(lambda: self.advance(takes_s))

    def advance(self, seconds: float) -> None:
        self.now_s += seconds

    def poll(
        self, receiving: set[str], sending: set[str] | None = None, real: set[int] | None = None,
        failed: set[str] | None = None,
    ) -> tuple[set[str], set[int]]:
        """One pass of the engine's polling: what it is told of ended loads and failed blocks."""
        told = set(receiving)
        self.half.results(set() if sending is None else sending, told, set() if failed is None else failed)
        return told, self.half.failures(set() if real is None else real)

    def journal(self) -> Journal:
        return load_journal(self.folder)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(tmp_path, monkeypatch)


def slow(seconds: float = 5.0) -> Aim:
    return Aim(fault="slow-0", action="slow", seconds=seconds, nth=1)


def test_a_clean_load_is_reported_at_once_with_its_bytes_and_time(bench: Bench) -> None:
    bench.begin(takes_s=0.25)
    assert bench.poll({ENGINE_ID}) == ({ENGINE_ID}, set())
    [began], [ended] = bench.journal().select(KvLoadBegan), bench.journal().select(KvLoadEnded)
    # a block is 2 x 4 values x 4 bytes = 32 bytes; two of them
    assert (began.load_bytes, ended.load_bytes) == (64, 64)
    assert (ended.ok, ended.failed_blocks, ended.transfer_s) == (True, 0, 0.25)


def test_two_loads_in_one_pass_have_no_time_of_their_own(bench: Bench) -> None:
    orders = {
        name: LoadOrder(name, 1, (number,), None, 0.0, "", "", "") for number, name in enumerate(("a", "b"), start=1)
    }
    bench.half.bound(orders)
    bench.half.load(lambda: bench.advance(1.0))
    bench.poll({"a", "b"})
    assert [one.transfer_s for one in bench.journal().select(KvLoadEnded)] == [None, None]


def test_a_failure_of_the_connector_is_journalled_as_its_own(bench: Bench) -> None:
    bench.begin()
    assert bench.poll({ENGINE_ID}, real={3}) == ({ENGINE_ID}, {3})
    [ended] = bench.journal().select(KvLoadEnded)
    assert (ended.ok, ended.failed_blocks, ended.reason, ended.transfer_s) == (False, 1, "load_error", None)


def test_a_slow_load_is_kept_back_and_given_up_at_its_deadline(bench: Bench) -> None:
    bench.order([slow()])
    bench.begin(slow_s=5.0, slow_fault="slow-0", deadline_at_ns=102_000_000_000)
    assert bench.poll({ENGINE_ID}) == (set(), set())
    bench.advance(1.9)
    assert bench.poll(set()) == (set(), set())
    bench.advance(0.2)
    assert bench.poll(set()) == ({ENGINE_ID}, {2, 3}), "all its blocks fail, in the pass that reports its end"
    [ended] = bench.journal().select(KvLoadEnded)
    assert (ended.ok, ended.reason, ended.failed_blocks) == (False, "deadline", 2)
    assert ended.transfer_ended_at_ns == 100_000_000_000
    assert ended.given_up_at_ns == 102_100_000_000


def test_a_slow_load_within_its_deadline_ends_well(bench: Bench) -> None:
    bench.order([slow(1.0)])
    bench.begin(slow_s=1.0, slow_fault="slow-0", deadline_at_ns=110_000_000_000)
    assert bench.poll({ENGINE_ID}) == (set(), set())
    bench.advance(1.0)
    assert bench.poll(set()) == ({ENGINE_ID}, set())
    assert [one.phase for one in bench.journal().select(FaultApplied)] == ["began", "ended"]


def test_a_slow_load_goes_on_when_its_fault_is_disarmed(bench: Bench) -> None:
    bench.order([slow()])
    bench.begin(slow_s=5.0, slow_fault="slow-0")
    bench.poll({ENGINE_ID})
    bench.order([])
    assert bench.poll(set()) == ({ENGINE_ID}, set())


def test_a_transfer_that_runs_on_past_its_deadline_is_not_given_up_before_it_ends(bench: Bench) -> None:
    bench.begin(deadline_at_ns=101_000_000_000)
    bench.advance(2.0)
    assert bench.poll(set()) == (set(), set()), "bytes may still arrive in its blocks"
    bench.advance(3.0)
    assert bench.poll({ENGINE_ID}) == ({ENGINE_ID}, {2, 3})
    [ended] = bench.journal().select(KvLoadEnded)
    assert (ended.given_up_at_ns, ended.transfer_ended_at_ns) == (102_000_000_000, 105_000_000_000)


def test_the_end_of_a_load_is_never_reported_for_a_request_that_is_gone(bench: Bench) -> None:
    bench.order([slow()])
    bench.begin(slow_s=5.0, slow_fault="slow-0")
    bench.poll({ENGINE_ID})
    assert bench.poll(set(), sending={ENGINE_ID}) == (set(), set())
    bench.advance(9.0)
    assert bench.poll(set()) == (set(), set())
    assert [one.request_id for one in bench.journal().select(KvSaved)] == ["r"]


def test_a_block_is_overwritten_with_zeros(bench: Bench) -> None:
    bench.order([Aim(fault="c", action="corrupt", nth=1)])
    bench.begin(corrupt="zeros", corrupt_fault="c")
    bench.poll({ENGINE_ID})
    assert bench.cache.values[:, 2].sum() == 0
    assert bench.cache.values[:, 3].sum() != 0
    assert [one.fault for one in bench.journal().select(FaultApplied)] == ["c"]


def test_a_block_is_overwritten_with_what_an_earlier_load_of_another_brought(bench: Bench) -> None:
    bench.order([Aim(fault="c", action="corrupt", nth=2, pattern="foreign")])
    other = "cmpl-s-0-0123abcd"
    bench.begin(engine_id=other, block_ids=(5, 6))
    bench.poll({other})
    bench.begin(corrupt="foreign", corrupt_fault="c")
    bench.poll({ENGINE_ID})
    assert set(bench.cache.values[:, 2].flatten()) == {5.0}


def test_without_an_earlier_load_nothing_foreign_is_claimed_to_be_there(bench: Bench) -> None:
    bench.order([Aim(fault="c", action="corrupt", nth=1, pattern="foreign")])
    bench.begin(corrupt="foreign", corrupt_fault="c")
    bench.poll({ENGINE_ID})
    assert bench.journal().select(FaultApplied) == []
    assert set(bench.cache.values[:, 2].flatten()) == {2.0}


def test_a_load_in_the_background_took_as_long_as_until_the_engine_looked(bench: Bench) -> None:
    bench.begin(takes_s=0.25, background=True)
    assert bench.poll(set()) == (set(), set())
    bench.advance(1.0)
    bench.poll({ENGINE_ID})
    assert [one.transfer_s for one in bench.journal().select(KvLoadEnded)] == [1.25]


def test_each_load_tells_the_way_of_the_connector_that_makes_it(bench: Bench) -> None:
    bench.begin(path="loopback_tcp")
    bench.poll({ENGINE_ID})
    [began], [ended] = bench.journal().select(KvLoadBegan), bench.journal().select(KvLoadEnded)
    assert (began.path, ended.path) == ("loopback_tcp", "loopback_tcp")


def test_a_load_within_its_step_ends_in_it_and_is_not_reported_as_received(bench: Bench) -> None:
    bench.begin(takes_s=0.25, is_async=False)
    assert bench.poll(set()) == (set(), set())
    [ended] = bench.journal().select(KvLoadEnded)
    assert (ended.ok, ended.transfer_s, ended.blocks) == (True, 0.25, 2)


def test_a_failure_within_the_step_is_journalled(bench: Bench) -> None:
    bench.begin(is_async=False)
    assert bench.poll(set(), real={3}) == (set(), {3})
    [ended] = bench.journal().select(KvLoadEnded)
    assert (ended.ok, ended.reason, ended.failed_blocks) == (False, "load_error", 1)


def test_a_slow_load_within_its_step_keeps_the_engine_to_its_deadline(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("testbed.probe.worker_half.clock.sleep_s", bench.advance)
    bench.order([slow()])
    bench.begin(is_async=False, slow_s=5.0, slow_fault="slow-0", deadline_at_ns=102_000_000_000)
    assert bench.now_s == pytest.approx(102.0, abs=0.02)
    assert bench.poll(set()) == (set(), {2, 3})
    bench.begin(is_async=False, slow_s=5.0, slow_fault="slow-0")
    assert bench.now_s == pytest.approx(107.0, abs=0.04)
    assert bench.poll(set()) == (set(), set())
    assert [one.reason for one in bench.journal().select(KvLoadEnded)] == ["deadline", ""]


def test_blocks_that_failed_before_the_end_was_told_are_remembered(bench: Bench) -> None:
    bench.begin()
    assert bench.poll(set(), real={3, 7}) == (set(), {3, 7}), "passed on at once"
    assert bench.poll({ENGINE_ID}, real={2}) == ({ENGINE_ID}, {2})
    [ended] = bench.journal().select(KvLoadEnded)
    assert (ended.ok, ended.reason, ended.failed_blocks) == (False, "load_error", 2)


def test_a_failure_without_a_word_about_blocks_is_one_of_all_blocks(bench: Bench) -> None:
    bench.begin()
    assert bench.poll({ENGINE_ID}, failed={ENGINE_ID}) == ({ENGINE_ID}, set())
    [ended] = bench.journal().select(KvLoadEnded)
    assert (ended.ok, ended.reason, ended.failed_blocks) == (False, "load_error", 2)
