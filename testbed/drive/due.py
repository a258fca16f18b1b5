"""Which request is due next, and when: by its own time, or by the end of the one that it follows.

No clock is read here; all times are nanoseconds of one monotonic clock. Requests are read from their share when their
time is near, so that memory does not grow with the length of the schedule.
"""

import heapq
from collections import Counter
from collections.abc import Iterator

from testbed.drive.share import Item, Share

AHEAD_NS = 500_000_000
AHEAD_ITEMS = 1_000
AHEAD_BYTES = 64 * 2**20
READ_AT_ONCE = 100
"""So far ahead of its time, so many and so much are read, and no more in one go than delays nobody."""
MOMENT_NS = 5_000_000
"""What is due within one moment is in flight at once."""


class Ready:
    """A request in memory: when it is due by the plan or by the end of the one before it, and its body."""

    __slots__ = ("body", "due_at_ns", "item")

    def __init__(self, item: Item, due_at_ns: int, body: bytes) -> None:
        self.item = item
        self.due_at_ns = due_at_ns
        self.body = body


class Due:
    """The requests of one share that have not gone out."""

    def __init__(self, share: Share, zero_at_ns: int) -> None:
        self._share = share
        self._zero_at_ns = zero_at_ns
        self._unread = share.items()
        self._next: Item | None = next(self._unread, None)
        self._ready: list[tuple[int, int, Ready]] = []
        self._pushed = 0
        self._ready_bytes = 0
        self._moments: Counter[int] = Counter()
        self._waiting: dict[int, list[Item]] = {}
        self._ended: dict[int, tuple[int, int]] = {}

    def read_ahead(self, now_ns: int) -> None:
        """Read some of what is due soon, within limits of number and size."""
        for _ in range(READ_AT_ONCE):
            next_at_ns = self._unread_at_ns()
            full = len(self._ready) >= AHEAD_ITEMS or self._ready_bytes >= AHEAD_BYTES
            if next_at_ns is None or next_at_ns > now_ns + AHEAD_NS or full:
                return
            self._read_one()

    def next_at_ns(self) -> int | None:
        """When to look again; None while all that is left waits for the end of another, or nothing is left."""
        unread_at_ns = self._unread_at_ns()
        if not self._ready:
            return unread_at_ns
        ready_at_ns = self._ready[0][0]
        return ready_at_ns if unread_at_ns is None else min(ready_at_ns, unread_at_ns)

    def pop(self, now_ns: int) -> Ready | None:
        """The request that has been due longest, or None if none is due."""
        while (unread_at_ns := self._unread_at_ns()) is not None and unread_at_ns <= now_ns:
            if self._ready and self._ready[0][0] <= unread_at_ns:
                break
            self._read_one()
        if not self._ready or self._ready[0][0] > now_ns:
            return None
        return self._take()

    def ended(self, item: Item, at_ns: int) -> None:
        """A request has ended: what follows it is due when its user has thought."""
        if item.followers:
            waiting = self._waiting.pop(item.index, [])
            self._ended[item.index] = (at_ns, item.followers)
            for follower in waiting:
                self._admit(follower)

    def most_at_once(self, until_ns: int) -> int:
        """The most requests that are due within one moment, of those in memory that are due by `until_ns`."""
        last = until_ns // MOMENT_NS
        return max((count for moment, count in self._moments.items() if moment <= last), default=0)

    def rest(self) -> Iterator[Item]:
        """Take out all that has not gone out, in no particular order."""
        while self._ready:
            yield self._take().item
        for waiting in self._waiting.values():
            yield from waiting
        self._waiting.clear()
        while self._next is not None:
            yield self._next
            self._next = next(self._unread, None)

    def _unread_at_ns(self) -> int | None:
        return None if self._next is None else self.own_time(self._next)

    def own_time(self, item: Item) -> int:
        """When the plan wanted it."""
        return self._zero_at_ns + item.at_ns

    def _read_one(self) -> None:
        if self._next is not None:
            self._admit(self._next)
            self._next = next(self._unread, None)

    def _admit(self, item: Item) -> None:
        """It is due by its own time, or later by the end of the one before it, or waits for that end."""
        if item.after is None:
            self._push(item, self.own_time(item))
        elif item.after in self._ended:
            at_ns, left = self._ended[item.after]
            if left > 1:
                self._ended[item.after] = (at_ns, left - 1)
            else:
                del self._ended[item.after]
            self._push(item, max(self.own_time(item), at_ns + item.think_ns))
        else:
            self._waiting.setdefault(item.after, []).append(item)

    def _push(self, item: Item, due_at_ns: int) -> None:
        self._pushed += 1
        heapq.heappush(self._ready, (due_at_ns, self._pushed, Ready(item, due_at_ns, self._share.body(item))))
        self._ready_bytes += item.body_bytes
        self._moments[due_at_ns // MOMENT_NS] += 1

    def _take(self) -> Ready:
        due_at_ns, _, ready = heapq.heappop(self._ready)
        self._ready_bytes -= ready.item.body_bytes
        moment = due_at_ns // MOMENT_NS
        self._moments[moment] -= 1
        if not self._moments[moment]:
            del self._moments[moment]
        return ready
