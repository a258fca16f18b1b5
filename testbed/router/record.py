"""The router's shard of the journal, which moves with the run.

Events are stamped at once, and handed a few at a time to a thread that writes, so that a slow disk holds up no request.
A disk that takes no more does not stop the traffic: the shard is left cut off, by which every reader sees that the
record is not whole, and `/metrics` says so.
"""

import asyncio
import logging
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from testbed.journal.events import Event
from testbed.journal.writer import JournalWriter

HAND_OVER_S = 0.01
"""A kill costs the events of so long."""
_LOG = logging.getLogger(__name__)


class Record:
    """Writes events where it was last told; nowhere before that. `broken` is True once the disk took no more."""

    def __init__(self) -> None:
        self._writer: JournalWriter | None = None
        self._folder: str | None = None
        self._lines: list[bytes] = []
        self._timer: asyncio.TimerHandle | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="journal")
        self._written: Future[None] | None = None
        self.broken = False

    def turn_to(self, folder: str, arm: str = "", repetition: int = 0) -> None:
        """Events belong to this journal, arm and repetition from now on.

        Raises: OSError if the folder can't be written.
        """
        if folder != self._folder:
            writer = JournalWriter(Path(folder), "router")
            self._leave()
            self._writer, self._folder, self.broken = writer, folder, False
        if self._writer is not None:
            self._writer.enter(arm, repetition)

    def write(self, kind: type[Event], **fields: Any) -> None:
        """Take one event, if there is a journal that takes it; only within the loop."""
        if self._writer is None:
            return
        self._lines.append(self._writer.line(kind, **fields))
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(HAND_OVER_S, self._hand_over)

    def settle(self) -> None:
        """Wait until all that was taken is on the disk, or lost."""
        self._hand_over()
        if self._written is not None:
            self._written.result()

    def _hand_over(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        lines, self._lines = self._lines, []
        if lines and self._writer is not None:
            self._written = self._thread.submit(self._append, self._writer, b"".join(lines))

    def _append(self, writer: JournalWriter, lines: bytes) -> None:
        """In the thread that writes."""
        if self.broken:
            return
        try:
            writer.append(lines)
        except OSError as problem:
            self.broken, self._writer = True, None
            _LOG.error("the router writes no more events to %s: %s. This run is not valid.", self._folder, problem)
            writer.break_off()

    def _leave(self) -> None:
        self.settle()
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def close(self) -> None:
        """Give the shard back."""
        self._leave()
        self._thread.shutdown()
