"""The collector samples what it is given, and says once when a source fails."""

import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from testbed.errors import RunError
from testbed.journal.events import KvLevelMoved, Note, Sample
from testbed.journal.reader import load_journal
from testbed.journal.writer import JournalWriter
from testbed.observe.collector import Collector


class Source:
    """Gives its values one after another, then the last one for ever, and tells when it has given so many."""

    def __init__(self, *values: Mapping[str, float] | RunError) -> None:
        self._values = list(values)
        self.given = 0
        self.enough = threading.Event()

    def __call__(self) -> Mapping[str, float]:
        value = self._values[min(self.given, len(self._values) - 1)]
        self.given += 1
        if self.given > len(self._values):
            self.enough.set()
        if isinstance(value, RunError):
            raise value
        return value


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("testbed.observe.collector.EVERY_S", 0.01)


def collect(folder: Path, source: Source) -> None:
    journal = JournalWriter(folder / "events", "driver")
    with Collector({"tier": source}, journal, kv_bytes_per_token=10):
        assert source.enough.wait(20)


def test_each_source_is_sampled_until_the_end(tmp_path: Path) -> None:
    source = Source({"waiting": 1.0})
    collect(tmp_path, source)
    assert load_journal(tmp_path).select(Sample)[0].values == {"waiting": 1.0}


def test_tokens_found_in_the_backing_are_bytes_that_moved_up(tmp_path: Path) -> None:
    # 100 then 164 tokens: 64 more x 10 B = 640 B
    source = Source({"hit_backing_tokens": 100.0}, {"hit_backing_tokens": 164.0})
    collect(tmp_path, source)
    assert [event.moved_bytes for event in load_journal(tmp_path).select(KvLevelMoved)] == [640]


def test_a_source_that_fails_is_noted_once_and_sampled_again_when_it_is_back(tmp_path: Path) -> None:
    source = Source({"waiting": 1.0}, RunError("gone"), RunError("gone"), {"waiting": 2.0})
    collect(tmp_path, source)
    journal = load_journal(tmp_path)
    assert [event.text for event in journal.select(Note)] == ["tier can't be read: gone"]
    assert {event.values["waiting"] for event in journal.select(Sample)} == {1.0, 2.0}
