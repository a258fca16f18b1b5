"""How many leading blocks an LRU cache would find, for all sizes at once.

Requests come one after another. First its hits are counted: the leading ids that are in the cache before it touches
anything. Then it touches each of its ids in order. An id is in a cache of C blocks exactly if at most C different ids
were touched since it was touched last, itself among them: its depth. So one pass that finds depths serves every C.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Depths:
    """What one pass found. `leading` counts, for each depth, the leading blocks that a cache of that size finds.

    `first_blocks` are those of them that begin a request; `touches` counts all that were touched again, by the depth at
    that moment.
    """

    leading: Counter[int]
    first_blocks: Counter[int]
    touches: Counter[int]
    total: int
    distinct: int

    def hit_blocks(self, capacity_blocks: int | None) -> int:
        """Leading blocks found by a cache of that many blocks, or an endless one."""
        return _up_to(self.leading, capacity_blocks)

    def first_block_hits(self, capacity_blocks: int | None) -> int:
        """Those of them that are the first of a request."""
        return _up_to(self.first_blocks, capacity_blocks)

    def final_blocks(self, capacity_blocks: int | None) -> int:
        """Blocks in the cache at the end."""
        return self.distinct if capacity_blocks is None else min(capacity_blocks, self.distinct)

    def evictions(self, capacity_blocks: int | None) -> int:
        """Blocks that were inserted and are no longer there at the end."""
        return self.total - _up_to(self.touches, capacity_blocks) - self.final_blocks(capacity_blocks)


def depths(requests: Sequence[Sequence[int]]) -> Depths:
    """Walk through the ids of all requests."""
    total = sum(len(ids) for ids in requests)
    stack = _Stack(total)
    leading: Counter[int] = Counter()
    first_blocks: Counter[int] = Counter()
    touches: Counter[int] = Counter()
    for ids in requests:
        deepest = 0
        for place, block in enumerate(ids):
            depth = stack.depth(block)
            if depth is None:
                break
            deepest = max(deepest, depth)
            leading[deepest] += 1
            first_blocks[deepest] += place == 0
        for block in ids:
            depth = stack.touch(block)
            if depth is not None:
                touches[depth] += 1
    return Depths(leading, first_blocks, touches, total, stack.distinct)


class _Stack:
    """The moment of each id's last touch, in a tree of sums (Fenwick's), so that a depth costs log n."""

    def __init__(self, touches: int) -> None:
        self._sums = [0] * (touches + 1)
        self._last: dict[int, int] = {}
        self._now = 0

    @property
    def distinct(self) -> int:
        """Ids ever touched."""
        return len(self._last)

    def depth(self, block: int) -> int | None:
        """How many ids were touched since this one was, itself among them; None if it never was."""
        at = self._last.get(block)
        if at is None:
            return None
        older, sums = 0, self._sums
        at -= 1
        while at:
            older += sums[at]
            at &= at - 1
        return len(self._last) - older

    def touch(self, block: int) -> int | None:
        """Touch it now, and return the depth that it had."""
        depth = self.depth(block)
        if depth is not None:
            self._add(self._last[block], -1)
        self._now += 1
        self._last[block] = self._now
        self._add(self._now, 1)
        return depth

    def _add(self, at: int, amount: int) -> None:
        sums, size = self._sums, len(self._sums)
        while at < size:
            sums[at] += amount
            at += at & -at


def _up_to(counts: Counter[int], capacity: int | None) -> int:
    return sum(count for depth, count in counts.items() if capacity is None or depth <= capacity)
