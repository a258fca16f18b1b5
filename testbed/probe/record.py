"""The journal shard of one half of a probe, which moves with the orders.

A disk that takes no more must not end the engine: the probe then tells nothing more, says so once in the engine's log,
and leaves its shard cut off, by which every reader sees that the record is not whole. From then on it does no harm
either: faults that nobody can read about are not obeyed. The guards stay in force.
"""

import logging
from pathlib import Path
from typing import Any

import msgspec

from testbed.journal.events import Event, Note
from testbed.journal.writer import JournalWriter
from testbed.probe.orders import OrderReader, Orders

_LOG = logging.getLogger(__name__)


class Record:
    """Reads the orders and writes events to the journal that they name; each journal begins with the `notes`."""

    def __init__(self, orders: Path, name: str, notes: tuple[str, ...] = ()) -> None:
        self._reader = OrderReader(orders)
        self._name = name
        self._notes = notes
        self._folder = ""
        self._writer: JournalWriter | None = None
        self._part: tuple[str, int] = ("", 0)

    def orders(self) -> Orders:
        """The orders in force, without their aims where the journal takes no more.

        Events go to their journal, arm and repetition from now on.
        """
        orders = self._reader.current()
        if orders.journal != self._folder:
            self._open(orders.journal)
        if self._writer is None:
            return msgspec.structs.replace(orders, aims=[])
        if self._part != (orders.arm, orders.repetition):
            first = self._part[1] < 0
            self._part = (orders.arm, orders.repetition)
            self._writer.enter(orders.arm, orders.repetition)
            for note in self._notes if first else ():
                self._append(Note, text=note)
        return orders

    def _open(self, folder: str) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        self._folder, self._part = folder, ("", -1)
        try:
            self._writer = JournalWriter(Path(folder), self._name)
        except OSError as problem:
            self._say(problem)

    def write(self, kind: type[Event], **fields: Any) -> None:
        """Append one event, if the journal still takes any."""
        self.orders()
        self._append(kind, **fields)

    def _append(self, kind: type[Event], **fields: Any) -> None:
        if self._writer is None:
            return
        try:
            self._writer.write(kind, **fields)
        except OSError as problem:
            broken, self._writer = self._writer, None
            self._say(problem)
            broken.break_off()

    def _say(self, problem: OSError) -> None:
        # By the logging module, for that survives a log on the same full disk.
        _LOG.error(
            "the probe (%s) writes no more events to %s: %s. The engine serves on, but this run is not valid.",
            self._name, self._folder, problem,
        )
