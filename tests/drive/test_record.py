"""A journal on a disk that takes no more: a clear end, counted, and what was written stays whole."""

import os
from pathlib import Path

import pytest

from testbed.clock import now_ns
from testbed.drive.record import Recorder
from testbed.errors import RunError
from testbed.journal.events import Note
from testbed.journal.reader import read_journal
from testbed.journal.writer import JournalWriter
from tests.drive.conftest import Driver, request
from tests.drive.scripted import serving, whole


class Full:
    """Lets the writer write so many bytes in all; then the disk is full, also in the middle of a write."""

    def __init__(self, room_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.room_bytes = room_bytes
        self._write = os.write
        monkeypatch.setattr("testbed.journal.writer.os.write", self)

    def __call__(self, file: int, data: bytes) -> int:
        written = self._write(file, data[: self.room_bytes]) if self.room_bytes else 0
        self.room_bytes -= written
        if not written:
            raise OSError(28, "No space left on device")
        return written


def record(journal: JournalWriter, notes: int) -> None:
    with Recorder(journal) as recorder:
        for number in range(notes):
            recorder.write(recorder.line(Note, text=str(number)))
            recorder.flush()


def test_all_that_was_taken_is_in_the_journal_when_the_recorder_is_left(tmp_path: Path) -> None:
    journal = JournalWriter(tmp_path, "drive")
    record(journal, 5)
    journal.close()
    events = read_journal([("drive", journal.path.read_bytes())]).events
    assert [event.text for event in events if isinstance(event, Note)] == ["0", "1", "2", "3", "4"]


def test_a_full_disk_is_told_with_what_is_lost_and_leaves_no_half_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = JournalWriter(tmp_path, "drive")
    line_bytes = len(journal.line(Note, text="0"))
    Full(2 * line_bytes + 10, monkeypatch)
    with pytest.raises(RunError, match=r"No space left on device; 3 events are lost"):
        record(journal, 5)
    content = journal.path.read_bytes()
    # two lines fit; of the third 10 bytes, which were taken back
    assert content.endswith(b"\n")
    assert content.count(b"\n") == 2


def test_a_disk_that_fills_up_ends_the_drive(driven: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    Full(2_000, monkeypatch)
    began_ns = now_ns()
    with serving(lambda post: (whole(),)) as server, pytest.raises(RunError, match="journal could not be written"):
        driven(server.base_url, [request(0), request(1), request(2, 25.0)])
    assert now_ns() - began_ns < 20e9
    assert len(server.posts) == 2


def test_a_disk_that_is_full_before_the_zero_sends_nothing(driven: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    Full(100, monkeypatch)
    with serving(lambda post: (whole(),)) as server, pytest.raises(RunError, match="journal could not be written"):
        driven(server.base_url, [request(0)])
    assert server.posts == []
