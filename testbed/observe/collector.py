"""Read the live parts about once a second and journal what they show."""

import threading
from collections.abc import Callable, Mapping
from types import TracebackType

from testbed.errors import RunError
from testbed.journal.events import KvLevelMoved, Note, Sample
from testbed.journal.writer import JournalWriter

EVERY_S = 1.0
Read = Callable[[], Mapping[str, float]]


class Collector:
    """Samples each source from entry to exit. A source that can't be read is noted once per failure in a row."""

    def __init__(self, sources: Mapping[str, Read], journal: JournalWriter, kv_bytes_per_token: int) -> None:
        self._sources = dict(sources)
        self._journal = journal
        self._kv_bytes_per_token = kv_bytes_per_token
        self._over = threading.Event()
        self._failing: set[str] = set()
        self._backing_tokens: float | None = None
        self._thread = threading.Thread(target=self._run, name="collector", daemon=True)

    def __enter__(self) -> "Collector":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join(timeout=30.0)

    def _run(self) -> None:
        while True:
            for name, read in self._sources.items():
                self._sample(name, read)
            if self._over.wait(EVERY_S):
                return

    def _sample(self, name: str, read: Read) -> None:
        try:
            values = dict(read())
        except (RunError, OSError) as problem:
            if name not in self._failing:
                self._failing.add(name)
                self._journal.write(Note, text=f"{name} can't be read: {problem}")
            return
        self._failing.discard(name)
        self._journal.write(Sample, source=name, values=values)
        if "hit_backing_tokens" in values:
            self._moved(values["hit_backing_tokens"])

    def _moved(self, backing_tokens: float) -> None:
        """Tokens found in the backing were copied into the tier's memory before they could be promised."""
        if self._backing_tokens is not None and backing_tokens > self._backing_tokens:
            tokens = int(backing_tokens - self._backing_tokens)
            self._journal.write(
                KvLevelMoved,
                source="backing",
                target="memory",
                path="loopback_tcp",
                moved_bytes=tokens * self._kv_bytes_per_token,
            )
        self._backing_tokens = backing_tokens
