"""The private channel into the engine: one small file that both halves of a connector read.

The scheduler and the worker side of a connector live in different processes; both look at the file's identity before
they act and read it again when it has changed. It is replaced atomically, so that no half-written order is ever seen.
Imports msgspec and the standard library alone.
"""

import os
import time
from pathlib import Path
from typing import Literal

import msgspec


class Aim(msgspec.Struct, frozen=True, kw_only=True):
    """What the probe is to do to some loads: each `every`-th, or the `nth` (from 1), of the `requests` (all if empty).

    hold     keep the request between LOOKUP and RESERVE for `seconds`, and until released if `await_release`
    slow     report a load's completion `seconds` after it began
    corrupt  overwrite one loaded block with zeros, or with another block's content (`pattern`)
    """

    fault: str
    action: Literal["hold", "slow", "corrupt"]
    seconds: float = 0.0
    every: int | None = None
    nth: int | None = None
    times: int | None = None
    requests: list[str] = []
    await_release: bool = False
    pattern: Literal["zeros", "foreign"] = "zeros"


class Orders(msgspec.Struct, frozen=True, kw_only=True):
    """Where to write events, the guards in force, and the faults that are armed.

    `expires_at_ns` is the dead-man time: after it no aim is obeyed, whoever armed it and whatever became of them.
    """

    journal: str
    arm: str
    repetition: int
    attempts: int
    load_deadline_s: float | None = None
    aims: list[Aim] = []
    released: list[str] = []
    expires_at_ns: int | None = None

    def armed(self) -> list[Aim]:
        """The aims that are still to be obeyed now."""
        if self.expires_at_ns is not None and time.monotonic_ns() > self.expires_at_ns:
            return []
        return self.aims


def write_orders(path: Path, orders: Orders) -> None:
    """Replace the order file in one step."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}.new")
    fresh.write_bytes(msgspec.json.encode(orders))
    fresh.replace(path)


class OrderReader:
    """Gives the orders in force; reads the file only when another one has taken its place."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._identity: tuple[int, int] | None = None
        self._orders: Orders | None = None

    def current(self) -> Orders:
        """The orders now in force.

        Raises: OSError, or msgspec.ValidationError, when the file is not there or not ours.
        """
        state = self._path.stat()
        identity = (state.st_mtime_ns, state.st_ino)
        if self._orders is None or identity != self._identity:
            self._orders = msgspec.json.decode(self._path.read_bytes(), type=Orders)
            self._identity = identity
        return self._orders
