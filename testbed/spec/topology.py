"""`topologies/*.yaml`: which engines, how KV gets from one to another, which tier, and what if a load fails."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from testbed.spec.fields import DurationS, SizeBytes, Spec
from testbed.spec.refusals import Refusal, refusal
from testbed.spec.routing import LegRole, Routing


class ChunkedPrefill(Spec):
    """Prefill cut in pieces of at most `budget` tokens a step."""

    budget: int = Field(gt=0)


class Engine(Spec):
    """One group of equal engines. `args` are extra vLLM flags, checked by vLLM's own parser.

    `gpus` are those of one replica; a machine without any takes no notice of it.
    """

    role: LegRole
    replicas: int = Field(default=1, ge=1)
    gpus: int = Field(default=1, ge=1)
    tensor_parallel: int = Field(default=1, ge=1)
    chunked_prefill: ChunkedPrefill | Literal["off"] = "off"
    args: dict[str, Any] = {}
    env: dict[str, str] = {}


class Backing(Spec):
    """A second level behind the tier's memory. With `url` a Redis that is already there is used and never flushed."""

    kind: Literal["redis"]
    memory: SizeBytes | None = None
    url: str | None = None

    @model_validator(mode="after")
    def _memory_of_ours(self) -> "Backing":
        if self.url is None and self.memory is None:
            raise ValueError("backing needs memory (of a redis that testbed starts) or url (of one that is there)")
        return self


class NoTier(Spec):
    """The engine's own KV memory only."""

    kind: Literal["none"]


class LmcacheTier(Spec):
    """An LMCache server with `memory` bytes of shared memory; loads later than `load_deadline` are given up."""

    kind: Literal["lmcache"]
    memory: SizeBytes
    load_deadline: DurationS
    chunk_blocks: int = Field(default=1, ge=1)
    backing: Backing | None = None


class MooncakeStoreTier(Spec):
    """A Mooncake Store: a master, and `memory` bytes of each engine's own process that it lends to the store."""

    kind: Literal["mooncake_store"]
    memory: SizeBytes
    load_deadline: DurationS


class FilesTier(Spec):
    """A folder of files of this deployment's own, read within the step that needs them: loads are synchronous."""

    kind: Literal["files"]


Tier = Annotated[NoTier | LmcacheTier | MooncakeStoreTier | FilesTier, Field(discriminator="kind")]


class NoTransfer(Spec):
    """No engine hands KV to another."""

    kind: Literal["none"]


class MooncakeP2p(Spec):
    """The prefill engine pushes KV to the decode engine through Mooncake's transfer engine."""

    kind: Literal["mooncake_p2p"]
    load_deadline: DurationS


class Nixl(Spec):
    """The decode engine pulls KV from the prefill engine through NIXL."""

    kind: Literal["nixl"]
    load_deadline: DurationS


class ByTier(Spec):
    """Prefill saves into the tier and decode loads from there; the tier's load_deadline holds."""

    kind: Literal["tier"]


Transfer = Annotated[NoTransfer | MooncakeP2p | Nixl | ByTier, Field(discriminator="kind")]


def _as_tuple(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


class LoadFailure(Spec):
    """What the engine does after a load failed; always written to the engine, never left to its default."""

    policy: Literal["recompute", "fail"]
    attempts: int = Field(default=1, ge=1)


class Topology(Spec):
    """A deployment, without saying on which machine.

    A router stands before the engines where there are several, and where one is written.
    """

    name: str = Field(pattern=r"^[a-z][a-z0-9_-]*$")
    model: str
    engines: Annotated[tuple[Engine, ...], BeforeValidator(_as_tuple), Field(min_length=1)]
    transfer: Transfer = NoTransfer(kind="none")
    tier: Tier
    router: Routing | None = None
    on_load_failure: LoadFailure

    @property
    def engine_count(self) -> int:
        """All replicas of all groups."""
        return sum(group.replicas for group in self.engines)

    @property
    def apart(self) -> bool:
        """True where prefill and decode are engines of their own."""
        return self.transfer.kind != "none"

    @property
    def routed(self) -> bool:
        """True where clients ask a router."""
        return self.router is not None or self.engine_count > 1

    @property
    def probed(self) -> bool:
        """True where the engines have a connector, and so a probe."""
        return self.apart or self.tier.kind != "none"

    @property
    def load_deadline_s(self) -> float | None:
        """How long a load may take before it is given up; None where nothing is loaded, or can't be given up.

        With a transfer beside a tier the transfer's holds for both.
        """
        if isinstance(self.transfer, MooncakeP2p | Nixl):
            return self.transfer.load_deadline
        return None if isinstance(self.tier, NoTier | FilesTier) else self.tier.load_deadline

    @model_validator(mode="after")
    def _roles_and_ways_fit(self) -> "Topology":
        problems = [*_role_problems(self), *_transfer_problems(self), *_size_problems(self)]
        if problems:
            raise refusal("Topology", problems)
        return self


def _role_problems(topology: Topology) -> Iterator[Refusal]:
    """Engines that do both stand alone; those apart come in pairs."""
    first: dict[LegRole, int] = {}
    for number, group in enumerate(topology.engines):
        first.setdefault(group.role, number)
    if "both" in first and len(first) > 1:
        others = " and ".join(role for role in ("prefill", "decode") if role in first)
        yield ("engines", first["both"], "role"), f"an engine that does both can't stand beside {others} engines"
        return
    for role, other in (("prefill", "decode"), ("decode", "prefill")):
        if role in first and other not in first:
            yield ("engines", first[role], "role"), f"{role} engines need {other} engines; there are none"


def _transfer_problems(topology: Topology) -> Iterator[Refusal]:
    """The way from prefill to decode, and what it can't be combined with."""
    kind, roles = topology.transfer.kind, {group.role for group in topology.engines}
    where = ("transfer", "kind")
    if kind == "none" and "both" not in roles:
        number = next(number for number, group in enumerate(topology.engines) if group.role != "both")
        yield ("engines", number, "role"), (
            "prefill and decode engines need a way for the KV from one to the other;"
            " write transfer: {kind: nixl, load_deadline: 30s}, or kind mooncake_p2p or tier"
        )
    if kind != "none" and roles == {"both"}:
        yield where, f"{kind} joins prefill and decode engines; there are none"
    if kind == "tier" and topology.tier.kind == "none":
        yield where, "prefill and decode can't meet in a tier of kind none; give the tier another kind"
    if kind == "mooncake_p2p" and topology.tier.kind != "none":
        yield where, (
            f"mooncake_p2p can't be combined with tier {topology.tier.kind}: the prefill engine's API server dies on"
            " an assertion about metrics; take transfer tier, or tier none"
        )
    if kind == "nixl" and topology.tier.kind not in ("none", "lmcache"):
        yield where, f"nixl was never seen to work beside tier {topology.tier.kind}; beside lmcache it does"


def _size_problems(topology: Topology) -> Iterator[Refusal]:
    for number, group in enumerate(topology.engines):
        if group.tensor_parallel > group.gpus:
            yield ("engines", number, "tensor_parallel"), (
                f"a replica of {group.tensor_parallel} ranks needs as many GPUs; it has gpus: {group.gpus}"
            )
