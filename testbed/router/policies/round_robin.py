"""One engine after the other, whatever they are busy with."""

from collections.abc import Sequence

from testbed.router.policies.policy import Ask, Choice, Load


class RoundRobin:
    """Counts its choices."""

    name = "round_robin"
    needs_prompt = False

    def __init__(self) -> None:
        self._count = 0

    def choose(self, ask: Ask, loads: Sequence[Load]) -> Choice:
        """The next in line."""
        chosen = loads[self._count % len(loads)]
        self._count += 1
        return Choice(chosen.name)
