"""`topologies/*.yaml`: which engines, which tier, and what happens when a load fails."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from testbed.spec.fields import DurationS, SizeBytes, Spec


class ChunkedPrefill(Spec):
    """Prefill cut in pieces of at most `budget` tokens a step."""

    budget: int = Field(gt=0)


class Engine(Spec):
    """One group of equal engines. `args` are extra vLLM flags, checked by vLLM's own parser."""

    role: Literal["both"]
    replicas: int = Field(default=1, ge=1, le=1)
    gpus: int = Field(default=1, ge=1, le=1)
    tensor_parallel: int = Field(default=1, ge=1, le=1)
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


Tier = Annotated[NoTier | LmcacheTier, Field(discriminator="kind")]


def _as_tuple(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


class LoadFailure(Spec):
    """What the engine does after a load failed; always written to the engine, never left to its default."""

    policy: Literal["recompute", "fail"]
    attempts: int = Field(default=1, ge=1)


class Topology(Spec):
    """A deployment, without saying on which machine."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_-]*$")
    model: str
    engines: Annotated[tuple[Engine, ...], BeforeValidator(_as_tuple), Field(min_length=1, max_length=1)]
    tier: Tier
    on_load_failure: LoadFailure
