"""The journal shard of one half of a probe, which moves with the orders."""

from pathlib import Path
from typing import Any

from testbed.journal.events import Event
from testbed.journal.writer import JournalWriter
from testbed.probe.orders import OrderReader, Orders


class Record:
    """Reads the orders and writes events to the journal that they name."""

    def __init__(self, orders: Path, name: str) -> None:
        self._reader = OrderReader(orders)
        self._name = name
        self._folder = ""
        self._writer: JournalWriter | None = None
        self._part: tuple[str, int] = ("", 0)

    def orders(self) -> Orders:
        """The orders in force; events go to their journal, arm and repetition from now on."""
        orders = self._reader.current()
        if orders.journal != self._folder or self._writer is None:
            if self._writer is not None:
                self._writer.close()
            self._folder = orders.journal
            self._writer = JournalWriter(Path(orders.journal), self._name)
            self._part = ("", -1)
        if self._part != (orders.arm, orders.repetition):
            self._part = (orders.arm, orders.repetition)
            self._writer.enter(orders.arm, orders.repetition)
        return orders

    def write(self, kind: type[Event], **fields: Any) -> None:
        """Append one event."""
        self.orders()
        if self._writer is not None:
            self._writer.write(kind, **fields)
