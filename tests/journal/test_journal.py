"""The journal: written line by line, read back after a kill at any byte."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.errors import JournalError
from testbed.journal.events import AnyEvent, Event, KvSaved, Note, StepScheduled
from testbed.journal.reader import Follower, load_journal, read_journal
from testbed.journal.writer import JournalWriter


def written(folder: Path, count: int = 5) -> Path:
    """A shard with `count` notes."""
    writer = JournalWriter(folder / "events", "driver")
    writer.enter("tier", 2)
    for number in range(count):
        writer.write(Note, text=f"note {number}")
    writer.close()
    return writer.path


def test_an_event_comes_back_as_it_was_written(tmp_path: Path) -> None:
    written(tmp_path, 1)
    [event] = load_journal(tmp_path).select(Note)
    assert (event.text, event.arm, event.repetition, event.seq, event.schema) == ("note 0", "tier", 2, 0, 1)


def test_each_line_names_its_kind_and_is_strict_json(tmp_path: Path) -> None:
    path = written(tmp_path, 1)
    line = json.loads(path.read_text(), parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert line["kind"] == "note"


def test_events_of_several_shards_are_in_the_order_of_their_time(tmp_path: Path) -> None:
    one, two = JournalWriter(tmp_path / "events", "one"), JournalWriter(tmp_path / "events", "two")
    for number in range(6):
        (one if number % 2 else two).write(Note, text=str(number))
    assert [event.text for event in load_journal(tmp_path).select(Note)] == list("012345")


@given(st.integers(0, 600))
def test_a_kill_at_any_byte_costs_at_most_the_last_line(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    path = written(tmp_path_factory.mktemp("run"), 3)
    content = path.read_bytes()[:cut]
    whole = content.count(b"\n")
    journal = read_journal([("driver", content)])
    assert len(journal.events) == whole
    assert len(journal.cut_lines) == (1 if content and not content.endswith(b"\n") else 0)
    assert journal.gaps == (() if content else ("driver is empty: its writer could write nothing",))


def test_a_missing_event_in_the_middle_is_a_gap(tmp_path: Path) -> None:
    lines = written(tmp_path, 5).read_bytes().splitlines(keepends=True)
    journal = read_journal([("driver", b"".join(lines[:2] + lines[3:]))])
    assert journal.gaps == ("driver: 1 of 5 events are missing",)


def test_a_line_that_is_no_event_is_refused_with_its_place(tmp_path: Path) -> None:
    content = written(tmp_path, 2).read_bytes() + b'{"kind": "note"}\n'
    with pytest.raises(JournalError, match="driver:3: not an event"):
        read_journal([("driver", content)])


def test_a_folder_without_events_is_refused(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="holds no events"):
        load_journal(tmp_path)


def test_events_are_chosen_by_kind_arm_and_repetition(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path / "events", "driver")
    for arm, repetition in (("a", 0), ("b", 0), ("b", 1)):
        writer.enter(arm, repetition)
        writer.write(Note, text=f"{arm}{repetition}")
        writer.write(KvSaved, request_id="r")
    journal = load_journal(tmp_path)
    assert [event.text for event in journal.select(Note, "b")] == ["b0", "b1"]
    assert [event.text for event in journal.select(Note, "b", 1)] == ["b1"]


def test_a_follower_gives_each_event_once_and_waits_for_whole_lines(tmp_path: Path) -> None:
    path = written(tmp_path, 2)
    follower = Follower(path.parent)
    assert len(follower.fresh()) == 2
    content = path.read_bytes()
    half = content.splitlines(keepends=True)[0].replace(b'"seq":0', b'"seq":2')
    with path.open("ab") as shard:
        shard.write(half[:30])
        shard.flush()
        assert follower.fresh() == []
        shard.write(half[30:])
    assert [event.seq for event in follower.fresh()] == [2]


def test_a_work_list_keeps_its_tuples(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path / "events", "probe")
    writer.write(StepScheduled, step=0, total_tokens=5, work=[("r", 0, 5)])
    [event] = load_journal(tmp_path).select(StepScheduled)
    assert event.work == [("r", 0, 5)]


def test_every_kind_of_event_is_read_back() -> None:
    kinds = {kind.__name__ for kind in Event.__subclasses__()}
    assert kinds == {kind.__name__ for kind in AnyEvent.__args__}


def test_a_full_disk_is_not_swallowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = JournalWriter(tmp_path / "events", "driver")

    def full(file: int, content: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("testbed.journal.writer.os.write", full)
    with pytest.raises(OSError, match="No space left"):
        writer.write(Note, text="lost")


@pytest.mark.parametrize("room", [0, 5])
def test_a_shard_that_is_broken_off_ends_in_a_cut_line_whatever_the_disk_took_of_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    import os

    writer = JournalWriter(tmp_path / "events", "probe")
    writer.write(Note, text="first")
    writer.write(Note, text="second")
    really, left = os.write, [room]

    def nearly_full(file: int, content: bytes) -> int:
        if not left[0]:
            raise OSError(28, "No space left on device")
        taken, left[0] = left[0], 0
        return really(file, content[:taken])

    with monkeypatch.context() as full:
        full.setattr("testbed.journal.writer.os.write", nearly_full)
        with pytest.raises(OSError, match="No space left"):
            writer.write(Note, text="third")
        writer.break_off()
    journal = load_journal(tmp_path)
    assert [event.text for event in journal.select(Note)] == ["first"]
    # the second line is the one that was cut
    assert journal.cut_lines == (f"{writer.path.name}:2",)


def test_a_line_that_the_disk_takes_in_pieces_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    writer = JournalWriter(tmp_path / "events", "driver")
    really = os.write
    monkeypatch.setattr("testbed.journal.writer.os.write", lambda file, content: really(file, content[:7]))
    writer.write(Note, text="in pieces")
    assert [event.text for event in load_journal(tmp_path).select(Note)] == ["in pieces"]
