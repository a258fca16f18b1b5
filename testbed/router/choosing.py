"""Give a leg to an engine: what a policy is shown of the engines of one role, and which of them are passed over."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from testbed.errors import SpecError
from testbed.router.engine import Engine
from testbed.router.policies.cost import Cost, Rates
from testbed.router.policies.least_loaded import LeastLoaded
from testbed.router.policies.policy import Ask, Choice, Load, Policy
from testbed.router.policies.prefix_affinity import PrefixAffinity
from testbed.router.policies.round_robin import RoundRobin
from testbed.spec.routing import RouterConfig


@dataclass(frozen=True)
class Chosen:
    """The engine, why, the load of each candidate then, and who was passed over since it had just failed."""

    engine: Engine
    choice: Choice
    in_flight: Mapping[str, int]
    avoided: tuple[str, ...]


def _cost(config: RouterConfig) -> Policy:
    if config.prefill_tokens_per_s is None:
        raise SpecError("policy cost needs prefill_tokens_per_s")
    return Cost(Rates(config.prefill_tokens_per_s, config.kv_bytes_per_token, config.fetch_bytes_per_s))


POLICIES: Mapping[str, Callable[[RouterConfig], Policy]] = {
    RoundRobin.name: lambda config: RoundRobin(),
    LeastLoaded.name: lambda config: LeastLoaded(),
    PrefixAffinity.name: lambda config: PrefixAffinity(),
    Cost.name: _cost,
}


class Chooser:
    """Chooses among the engines of one role, with a policy of its own."""

    def __init__(self, engines: Sequence[Engine], policy: Policy, avoid_s: float) -> None:
        self.needs_prompt = policy.needs_prompt
        self._engines = {engine.name: engine for engine in engines}
        self._policy = policy
        self._avoid_s = avoid_s

    def choose(self, ask: Ask) -> Chosen:
        """One engine. Those that have just left a leg unanswered are passed over while there is another."""
        engines = list(self._engines.values())
        fit = [engine for engine in engines if not engine.failed_within(self._avoid_s)]
        candidates = fit if fit else engines
        avoided = tuple(engine.name for engine in engines if engine not in candidates)
        loads = [Load(engine.name, engine.in_flight, engine.waiting_tokens) for engine in candidates]
        choice = self._policy.choose(ask, loads)
        in_flight = {load.name: load.in_flight for load in loads}
        return Chosen(self._engines[choice.engine], choice, in_flight, avoided)
