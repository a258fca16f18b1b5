"""The probe on the worker side: LOAD and COMPLETE, the deadline of a load, and slow or corrupted loads.

A load that must be given up is reported as failed only once the real transfer has ended, so that no block is used again
while bytes may still arrive in it. A completion is never reported for a request that is gone: that ends the engine.
A load that is not asynchronous can only be slow by keeping the engine: then it does, as its tier would.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from testbed import clock
from testbed.journal.events import FaultApplied, KvLoadBegan, KvLoadEnded, KvSaved
from testbed.probe.identity import our_id
from testbed.probe.record import Record
from testbed.probe.scheduler_half import LoadOrder

_STALL_LOOK_EVERY_S = 0.01


@dataclass
class Load:
    """One load on its way."""

    order: LoadOrder
    began_at_ns: int
    transfer_s: float | None = None
    ended_at_ns: int | None = None
    given_up_at_ns: int | None = None
    failed_by_connector: bool = False
    lost: set[int] = field(default_factory=set)


class WorkerHalf:
    """Keeps a `Load` per request, by the engine's id. `path` is the way that the bytes take."""

    def __init__(self, record: Record, path: str) -> None:
        self._record = record
        self._path = path
        self._loads: dict[str, Load] = {}
        self._arrived: dict[str, LoadOrder] = {}
        self._ready: list[str] = []
        self._caches: list[Any] = []
        self._foreign: list[Any] = []
        self._num_blocks = 0
        self._block_bytes = 0

    def registered(self, caches: Mapping[str, Any], num_blocks: int) -> None:
        """Learn the engine's KV memory: the bytes of a block are counted there, not derived from a model's config."""
        self._caches = list(caches.values())
        self._num_blocks = num_blocks
        total = sum(cache.numel() * cache.element_size() for cache in self._caches)
        self._block_bytes = total // num_blocks

    def bound(self, orders: Mapping[str, LoadOrder]) -> None:
        """A step arrives, with the loads that begin in it."""
        self._arrived = dict(orders)

    def load(self, start: Callable[[], None]) -> None:
        """Let the real connector start its loads, and time it: some copy before they return, some in the background."""
        began_at_ns = time.monotonic_ns()
        for engine_id, order in self._arrived.items():
            self._loads[engine_id] = Load(order, began_at_ns)
            self._record.write(
                KvLoadBegan,
                request_id=order.request_id,
                attempt=order.attempt,
                blocks=len(order.block_ids),
                load_bytes=self._bytes(order),
                path=self._path_of(order),
            )
        start()
        # Several loads in one call share its time; whose it was cannot be told, so none of them gets it.
        if len(self._arrived) == 1:
            self._loads[next(iter(self._arrived))].transfer_s = (time.monotonic_ns() - began_at_ns) / 1e9
        for engine_id, order in self._arrived.items():
            if not order.is_async:
                self._transfer_ended(engine_id, time.monotonic_ns(), failed=False)
                self._stall(self._loads[engine_id])
        self._arrived = {}

    def _stall(self, load: Load) -> None:
        """Keep the engine for as long as a load is to be slow, at most to its deadline."""
        while load.order.slow_s and not self._may_end(load, time.monotonic_ns()):
            clock.sleep_s(_STALL_LOOK_EVERY_S)

    def _path_of(self, order: LoadOrder) -> str:
        return order.path if order.path else self._path

    def _bytes(self, order: LoadOrder) -> int:
        return len(order.block_ids) * self._block_bytes

    def results(self, sending: set[str], receiving: set[str], failed: set[str]) -> None:
        """Change what the connector reports as ended in this pass: keep back, or let go, by the orders in force."""
        now_ns = time.monotonic_ns()
        for engine_id in sorted(sending):
            self._record.write(KvSaved, request_id=our_id(engine_id))
            if self._loads.pop(engine_id, None) is not None:
                receiving.discard(engine_id)
        for engine_id in sorted(receiving & self._loads.keys()):
            self._transfer_ended(engine_id, now_ns, engine_id in failed)
        # The connector's own sets are changed in place: the engine reads them after this.
        receiving.difference_update(self._loads)
        failed.difference_update(self._loads)
        self._ready = [engine_id for engine_id, load in self._loads.items() if self._may_end(load, now_ns)]
        told = [engine_id for engine_id in self._ready if self._loads[engine_id].order.is_async]
        receiving.update(told)
        failed.update(engine_id for engine_id in told if self._loads[engine_id].failed_by_connector)

    def _transfer_ended(self, engine_id: str, now_ns: int, failed: bool) -> None:
        load = self._loads[engine_id]
        load.ended_at_ns, load.failed_by_connector = now_ns, failed
        order = load.order
        if order.background:
            load.transfer_s = (now_ns - load.began_at_ns) / 1e9
        if order.slow_s:
            self._applied(order.slow_fault, order, "began", None)
        if order.corrupt and not failed:
            self._corrupt(order)
        elif any(aim.action == "corrupt" for aim in self._record.orders().armed()):
            self._foreign = [self._block(cache, order.block_ids[0]).clone() for cache in self._caches]

    def _may_end(self, load: Load, now_ns: int) -> bool:
        """True when this load's end is to be reported now; notes the moment at which its deadline had passed."""
        deadline = load.order.deadline_at_ns
        if deadline is not None and now_ns > deadline and load.given_up_at_ns is None:
            load.given_up_at_ns = now_ns
        if load.ended_at_ns is None:
            return False
        if load.given_up_at_ns is not None or not load.order.slow_s or not self._still_slow(load.order):
            return True
        return now_ns - load.began_at_ns >= load.order.slow_s * 1e9

    def _still_slow(self, order: LoadOrder) -> bool:
        return any(aim.fault == order.slow_fault for aim in self._record.orders().armed())

    def failures(self, real: set[int]) -> set[int]:
        """The blocks to report as failed in this pass: the connector's own, and all of a load that was given up."""
        reported = set(real)
        # A connector may tell of failed blocks before it tells of the load's end.
        for load in self._loads.values() if real else ():
            load.lost |= real.intersection(load.order.block_ids)
        for engine_id in self._ready:
            load = self._loads.pop(engine_id)
            if load.given_up_at_ns is not None:
                reported.update(load.order.block_ids)
            self._ended(load)
        self._ready = []
        return reported

    def _ended(self, load: Load) -> None:
        order = load.order
        real = bool(load.lost) or load.failed_by_connector
        # Given up, or failed without a word about which blocks: then none of them is good.
        whole = load.given_up_at_ns is not None or load.failed_by_connector
        failed_blocks = len(order.block_ids) if whole else len(load.lost)
        ok = not failed_blocks and not load.failed_by_connector
        if order.slow_s:
            self._applied(order.slow_fault, order, "ended", (time.monotonic_ns() - load.began_at_ns) / 1e9)
        reason = "" if ok else "load_error" if real else "deadline"
        self._record.write(
            KvLoadEnded,
            request_id=order.request_id,
            attempt=order.attempt,
            ok=ok,
            blocks=len(order.block_ids),
            failed_blocks=failed_blocks,
            load_bytes=self._bytes(order),
            path=self._path_of(order),
            reason=reason,
            began_at_ns=load.began_at_ns,
            transfer_ended_at_ns=load.ended_at_ns,
            given_up_at_ns=load.given_up_at_ns,
            transfer_s=load.transfer_s if ok else None,
        )

    def _applied(self, fault: str, order: LoadOrder, phase: str, held_s: float | None) -> None:
        self._record.write(
            FaultApplied, fault=fault, request_id=order.request_id, stage="complete", phase=phase, held_s=held_s
        )

    def _block(self, cache: Any, number: int) -> Any:
        axis = next(axis for axis, size in enumerate(cache.shape) if size == self._num_blocks)
        return cache.select(axis, number)

    def _corrupt(self, order: LoadOrder) -> None:
        """Overwrite the first loaded block on every layer, with zeros or with what another load brought."""
        if order.corrupt == "foreign" and not self._foreign:
            return
        for number, cache in enumerate(self._caches):
            block = self._block(cache, order.block_ids[0])
            if order.corrupt == "zeros":
                block.zero_()
            else:
                block.copy_(self._foreign[number])
        self._applied(order.corrupt_fault, order, "began", None)
