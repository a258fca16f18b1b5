"""A journal that takes no more: the engine lives on, the record says that it is not whole, and no fault is hidden."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from testbed.checks import journal_whole
from testbed.journal.events import ArmEnded, KvSaved
from testbed.journal.manifest import ArmFacts
from testbed.journal.reader import load_journal
from testbed.journal.run import Run
from testbed.journal.writer import JournalWriter
from testbed.metrics.analysis import Analysis
from testbed.probe.orders import Aim, Orders, write_orders
from testbed.probe.record import Record
from tests.synthetic import manifest

ARM = ArmFacts(name="a", tier="lmcache", probed=True, policy="recompute", attempts=1)


@contextmanager
def files_end_at(size: int) -> Iterator[None]:
    """No file of this process grows beyond `size` bytes: the system refuses the rest, as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def order(folder: Path, journal: str = "events") -> None:
    aim = Aim(fault="hold-0", action="hold", nth=1)
    orders = Orders(
        journal=str(folder / journal), arm="a", repetition=0, attempts=1, load_deadline_s=2.0, aims=[aim]
    )
    write_orders(folder / "orders.json", orders)


def record(folder: Path) -> Record:
    order(folder)
    return Record(folder / "orders.json", "probe")


def test_a_full_disk_does_not_reach_the_engine_and_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    probe = record(tmp_path)
    probe.write(KvSaved, request_id="first")
    [shard] = (tmp_path / "events").iterdir()
    with files_end_at(shard.stat().st_size + 10):
        for number in range(5):
            probe.write(KvSaved, request_id=f"lost-{number}")
    [said] = caplog.messages
    assert "writes no more events" in said
    assert "this run is not valid" in said


def test_what_is_lost_on_a_full_disk_makes_the_record_not_whole(tmp_path: Path) -> None:
    probe = record(tmp_path)
    for number in range(3):
        probe.write(KvSaved, request_id=str(number))
    [shard] = (tmp_path / "events").iterdir()
    with files_end_at(shard.stat().st_size):
        probe.write(KvSaved, request_id="lost")
    # There is room again, but a record with a hole is no record.
    probe.write(KvSaved, request_id="later")
    driver = JournalWriter(tmp_path / "events", "driver")
    driver.enter("a", 0)
    driver.write(ArmEnded, complete=True)
    journal = load_journal(tmp_path)
    assert [one.request_id for one in journal.select(KvSaved)] == ["0", "1"]
    found = journal_whole.check(Analysis(Run(manifest(arms=[ARM], repetitions=1), journal, {})))
    assert found is not None
    assert (found.status, found.evidence) == ("UNKNOWN", (f"{shard.name}:3 was cut off",))


def test_a_shard_that_never_took_a_line_makes_the_record_not_whole(tmp_path: Path) -> None:
    probe = record(tmp_path)
    with files_end_at(0):
        probe.write(KvSaved, request_id="lost")
    [shard] = (tmp_path / "events").iterdir()
    assert load_journal(tmp_path).gaps == (f"{shard.name} is empty: its writer could write nothing",)


def test_a_probe_that_can_tell_nothing_obeys_no_fault_and_keeps_its_guards(tmp_path: Path) -> None:
    probe = record(tmp_path)
    probe.write(KvSaved, request_id="first")
    assert [aim.fault for aim in probe.orders().armed()] == ["hold-0"]
    with files_end_at(0):
        probe.write(KvSaved, request_id="lost")
    assert probe.orders().armed() == []
    assert (probe.orders().attempts, probe.orders().load_deadline_s) == (1, 2.0)


def test_a_folder_that_can_not_be_made_is_said_and_the_next_one_is_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "blocked").write_text("a file")
    order(tmp_path, "blocked/events")
    probe = Record(tmp_path / "orders.json", "probe")
    probe.write(KvSaved, request_id="lost")
    assert len(caplog.messages) == 1
    order(tmp_path, "run/events")
    probe.write(KvSaved, request_id="kept")
    assert [one.request_id for one in load_journal(tmp_path / "run").select(KvSaved)] == ["kept"]
