"""`router:` of a topology, and the file that a running router is given.

The first is what a user writes. The second is what a plan makes of it: addresses instead of roles, seconds as numbers.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec
from pydantic import Field, model_validator

from testbed.errors import SpecError
from testbed.spec.fields import DurationS, Number, SizeBytes, Spec

PolicyName = Literal["round_robin", "least_loaded", "prefix_affinity", "cost"]
TransferName = Literal["mooncake_p2p", "nixl", "tier"]
LegRole = Literal["both", "prefill", "decode"]


class Deadlines(Spec):
    """How long each hop of a request may take before it ends with an error that names the hop.

    `prefill` is for the whole answer of a prefill leg; `first_byte` for the first of the answer that the client gets;
    `silence` for the gap between two pieces of it; `total` for all together. An engine that has sent nothing at all for
    `alive` while requests wait is asked a plain question, and given up with all of them if it leaves that unanswered
    for `alive` too: so a frozen engine is known long before the deadlines of busy ones. `health` is for one engine's
    token when somebody asks for the router's health.
    """

    connect: DurationS = Field(default=2.0, gt=0)
    prefill: DurationS = Field(default=30.0, gt=0)
    first_byte: DurationS = Field(default=60.0, gt=0)
    silence: DurationS = Field(default=15.0, gt=0)
    total: DurationS = Field(default=300.0, gt=0)
    alive: DurationS = Field(default=10.0, gt=0)
    health: DurationS = Field(default=10.0, gt=0)


class CostRates(Spec):
    """What the policy `cost` predicts with: the rates of one engine, and of the path from the shared tier.

    Without `fetch_bytes_per_s` nothing is fetched: a prefix that another engine holds is computed again.
    """

    prefill_tokens_per_s: Number = Field(gt=0)
    kv_per_token: SizeBytes | None = None
    fetch_bytes_per_s: Number | None = Field(default=None, gt=0)

    @model_validator(mode="after")
    def _fetch_has_a_size(self) -> "CostRates":
        if self.fetch_bytes_per_s is not None and self.kv_per_token is None:
            raise ValueError("fetch_bytes_per_s needs kv_per_token, the size of one token's KV")
        return self


class Routing(Spec):
    """How requests find their engines.

    Beyond `max_in_flight` a request is refused with 429. For `avoid_after_failure` an engine that did not answer is
    passed over while there is another; 0s never passes one over. Nothing is ever sent a second time.
    """

    policy: PolicyName = "least_loaded"
    max_in_flight: int = Field(default=256, ge=1)
    avoid_after_failure: DurationS = Field(default=1.0, ge=0)
    deadlines: Deadlines = Deadlines()
    cost: CostRates | None = None

    @model_validator(mode="after")
    def _cost_has_rates(self) -> "Routing":
        if (self.policy == "cost") != (self.cost is not None):
            raise ValueError("the policy cost and the rates below `cost` belong together: give both or neither")
        return self


class EngineAt(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One engine as the router reaches it. `bootstrap_url` is where a prefill engine tells who it is, if it does."""

    name: str
    url: str
    role: LegRole = "both"
    bootstrap_url: str | None = None


class RouterConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file that `python -m testbed.router.serve --config FILE` reads.

    `journal` is the folder of events, None to write none until told where. Units: durations in seconds.
    """

    engines: list[EngineAt]
    model: str
    host: str = "127.0.0.1"
    port: int = 0
    transfer: TransferName | None = None
    policy: PolicyName = "least_loaded"
    max_in_flight: int = 256
    avoid_after_failure_s: float = 1.0
    connect_s: float = 2.0
    prefill_s: float = 30.0
    first_byte_s: float = 60.0
    silence_s: float = 15.0
    total_s: float = 300.0
    alive_s: float = 10.0
    health_s: float = 10.0
    prefill_tokens_per_s: float | None = None
    kv_bytes_per_token: int | None = None
    fetch_bytes_per_s: float | None = None
    journal: str | None = None


def router_config(
    routing: Routing, engines: Sequence[EngineAt], *, model: str, port: int, transfer: TransferName | None,
    journal: str | None = None,
) -> RouterConfig:
    """The file for these engines, from what the user wrote. `model` is the name that they serve."""
    limits, cost = routing.deadlines, routing.cost
    return RouterConfig(
        engines=list(engines), model=model, port=port, transfer=transfer, policy=routing.policy, journal=journal,
        max_in_flight=routing.max_in_flight, avoid_after_failure_s=routing.avoid_after_failure,
        connect_s=limits.connect, prefill_s=limits.prefill, first_byte_s=limits.first_byte,
        silence_s=limits.silence, total_s=limits.total, alive_s=limits.alive, health_s=limits.health,
        prefill_tokens_per_s=cost.prefill_tokens_per_s if cost else None,
        kv_bytes_per_token=cost.kv_per_token if cost else None,
        fetch_bytes_per_s=cost.fetch_bytes_per_s if cost else None,
    )


def read_router_config(text: bytes, where: str) -> RouterConfig:
    """The file's content, checked.

    Raises: SpecError for what is no such file, for a role that has no engine, and for a name that two have.
    """
    try:
        config = msgspec.json.decode(text, type=RouterConfig)
    except msgspec.MsgspecError as problem:
        raise SpecError(f"is not a file for the router: {problem}", where=where) from problem
    problems = _config_problems(config)
    if problems:
        raise SpecError("; ".join(problems), where=where)
    return config


def _config_problems(config: RouterConfig) -> list[str]:
    names = [engine.name for engine in config.engines]
    roles = {engine.role for engine in config.engines}
    problems = [f"two engines are called {name}" for name in sorted({name for name in names if names.count(name) > 1})]
    wanted = {"both"} if config.transfer is None else {"prefill", "decode"}
    if roles != wanted:
        way = "without a transfer" if config.transfer is None else f"with transfer {config.transfer}"
        found = ", ".join(sorted(roles)) if roles else "none"
        problems.append(f"{way} the roles must be {' and '.join(sorted(wanted))}; found {found}")
    if config.transfer == "mooncake_p2p":
        mute = [one.name for one in config.engines if one.role == "prefill" and one.bootstrap_url is None]
        problems += [f"{name} has no bootstrap_url, which transfer mooncake_p2p needs" for name in mute]
    if config.policy == "cost" and config.prefill_tokens_per_s is None:
        problems.append("policy cost needs prefill_tokens_per_s")
    return problems
