"""The engine with the fewest requests in flight; among equals one after the other."""

from collections.abc import Sequence

from testbed.router.policies.policy import Ask, Choice, Load


class LeastLoaded:
    """Counts its choices, so that equals take turns."""

    name = "least_loaded"
    needs_prompt = False

    def __init__(self) -> None:
        self._count = 0

    def choose(self, ask: Ask, loads: Sequence[Load]) -> Choice:
        """The first of the least loaded, seen from where the turn is."""
        turn = self._count % len(loads)
        self._count += 1
        chosen = min([*loads[turn:], *loads[:turn]], key=lambda load: load.in_flight)
        return Choice(chosen.name, {load.name: float(load.in_flight) for load in loads})
