"""The deadlines of all requests in flight, kept without a timer for each.

Deadlines lie in slots of some milliseconds. What has ended is taken out at once, so nothing is left of it.
"""

SLOT_NS = 10_000_000


class Deadlines:
    """Numbers of requests by the time at which they must have ended; one is seen as late up to a slot after it."""

    def __init__(self, now_ns: int) -> None:
        self._slots: dict[int, set[int]] = {}
        self._looked_to = now_ns // SLOT_NS

    def add(self, number: int, at_ns: int) -> None:
        """Watch over `number`, whose time lies ahead."""
        self._slots.setdefault(at_ns // SLOT_NS, set()).add(number)

    def drop(self, number: int, at_ns: int) -> None:
        """It has ended; `at_ns` is what it was added with."""
        slot = at_ns // SLOT_NS
        held = self._slots.get(slot)
        if held is not None:
            held.discard(number)
            if not held:
                del self._slots[slot]

    def passed(self, now_ns: int) -> list[int]:
        """Take out those whose slot is over."""
        late: list[int] = []
        now = now_ns // SLOT_NS
        for slot in range(self._looked_to, now):
            late += sorted(self._slots.pop(slot, ()))
        self._looked_to = now
        return late
