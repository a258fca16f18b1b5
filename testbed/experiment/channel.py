"""The driver's end of the order file that the probe inside the engine reads."""

import threading
from pathlib import Path

from testbed.clock import now_ns
from testbed.probe.orders import Aim, Orders, write_orders


class Channel:
    """Keeps the orders in force and writes each change at once. Safe to call from several threads."""

    def __init__(self, path: Path, orders: Orders) -> None:
        self._path = path
        self._orders = orders
        self._lock = threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True)
        write_orders(path, orders)

    def _replace(self, **changes: object) -> None:
        import msgspec

        self._orders = msgspec.structs.replace(self._orders, **changes)
        write_orders(self._path, self._orders)

    def enter(self, journal: Path, arm: str, repetition: int) -> None:
        """Events go to `journal` as of this arm from now on; nothing is armed."""
        with self._lock:
            self._replace(
                journal=str(journal), arm=arm, repetition=repetition, aims=[], released=[], expires_at_ns=None
            )

    def guard(self, *, attempts: int, load_deadline_s: float | None) -> None:
        """Change the guards that hold for every load from now on."""
        with self._lock:
            self._replace(attempts=attempts, load_deadline_s=load_deadline_s)

    def arm(self, aim: Aim, alive_s: float) -> None:
        """Add an aim; all aims die by themselves after `alive_s`, whatever becomes of us."""
        with self._lock:
            others = [one for one in self._orders.aims if one.fault != aim.fault]
            self._replace(aims=[*others, aim], expires_at_ns=now_ns() + int(alive_s * 1e9))

    def disarm(self, fault: str) -> None:
        """Forget one fault."""
        with self._lock:
            self._replace(aims=[one for one in self._orders.aims if one.fault != fault])

    def release(self, request_id: str) -> None:
        """Let a held request go on."""
        with self._lock:
            self._replace(released=[*self._orders.released, request_id])
