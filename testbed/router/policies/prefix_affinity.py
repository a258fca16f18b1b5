"""The engine that was given the longest beginning of this prompt before, unless it is far busier than another."""

from collections.abc import Sequence

from testbed.router.policies.least_loaded import LeastLoaded
from testbed.router.policies.policy import Ask, Choice, Load
from testbed.router.policies.prefixes import Prefixes

BUSIER_BY = 8
"""With so many more requests in flight than the least loaded engine, a known prefix is no longer worth the wait."""


class PrefixAffinity:
    """Scores are the pieces of the prompt that each engine lacks."""

    name = "prefix_affinity"
    needs_prompt = True

    def __init__(self) -> None:
        self._prefixes = Prefixes()
        self._equals = LeastLoaded()

    def choose(self, ask: Ask, loads: Sequence[Load]) -> Choice:
        """The best of those that are not far busier; among equals the least loaded."""
        names = self._prefixes.names(ask.prompt)
        lacks = {load.name: len(names) - self._prefixes.known(names, load.name) for load in loads}
        least = min(load.in_flight for load in loads)
        fit = [load for load in loads if load.in_flight - least < BUSIER_BY]
        best = min(lacks[load.name] for load in fit)
        chosen = self._equals.choose(ask, [load for load in fit if lacks[load.name] == best]).engine
        self._prefixes.learn(names, chosen)
        return Choice(chosen, {name: float(count) for name, count in lacks.items()})
