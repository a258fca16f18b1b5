"""The memory arithmetic of a plan: each term with its numbers, and a refusal where the sum does not fit."""

from dataclasses import dataclass

from testbed.errors import DeployError
from testbed.spec.topology import LmcacheTier, MooncakeStoreTier, Topology
from testbed.tiers.mooncake_store import LOCAL_BUFFER_BYTES

ENGINE_BYTES = 3_300_000_000
"""Resident memory of the three processes of one CPU engine with a small model, without KV (measured, rounded up)."""

ROUTER_BYTES = 100_000_000
LMCACHE_BYTES = 700_000_000
MOONCAKE_MASTER_BYTES = 100_000_000
RAY_BYTES = 900_000_000


@dataclass(frozen=True)
class EngineKvPlan:
    """The engine's own KV memory. `document_tokens` is the working set that it is measured against.

    `working_set` says what that is: the documents or, where there are none, all prompts and answers.
    """

    num_blocks: int
    block_size: int
    document_tokens: int
    kv_bytes_per_token: int
    working_set: str = "documents"

    @property
    def tokens(self) -> int:
        """Tokens that fit into the engine's own KV."""
        return self.num_blocks * self.block_size

    @property
    def kv_bytes(self) -> int:
        """Bytes of the engine's own KV."""
        return self.tokens * self.kv_bytes_per_token

    def text(self) -> str:
        """The sum as a line of the plan."""
        return (
            f"engine KV: {self.num_blocks} blocks x {self.block_size} tokens = {self.tokens} tokens"
            f" x {self.kv_bytes_per_token} B = {self.kv_bytes} B;"
            f" {self.working_set}: {self.document_tokens} tokens x {self.kv_bytes_per_token} B"
            f" = {self.document_tokens * self.kv_bytes_per_token} B; share {self.tokens / self.document_tokens:.2f}"
        )


def engine_kv(
    share: float, document_tokens: int, block_size: int, kv_bytes_per_token: int, max_model_len: int
) -> EngineKvPlan:
    """`share` of the documents' tokens in whole blocks, but at least one longest request and a spare block."""
    wanted = round(share * document_tokens / block_size)
    least = -(-max_model_len // block_size) + 1
    return EngineKvPlan(max(wanted, least), block_size, document_tokens, kv_bytes_per_token)


def memory_terms(topology: Topology, engine_kv_bytes: int) -> dict[str, int]:
    """What a deployment on this machine's processor takes, term by term: each engine, then what they share."""
    count = topology.engine_count
    engines, kv = ("engine", "engine KV") if count == 1 else (f"{count} engines", f"KV of {count} engines")
    terms = {"Ray": RAY_BYTES, engines: count * ENGINE_BYTES, kv: count * engine_kv_bytes}
    if topology.routed:
        terms["router"] = ROUTER_BYTES
    return terms | tier_terms(topology)


def tier_terms(topology: Topology) -> dict[str, int]:
    """What the tier of a topology takes of a machine's memory."""
    tier, engines = topology.tier, topology.engine_count
    if isinstance(tier, MooncakeStoreTier):
        buffers = engines * LOCAL_BUFFER_BYTES
        return {"Mooncake master": MOONCAKE_MASTER_BYTES, "tier memory": engines * tier.memory, "buffers": buffers}
    if not isinstance(tier, LmcacheTier):
        return {}
    terms = {"LMCache": LMCACHE_BYTES, "tier memory": tier.memory}
    if tier.backing is not None and tier.backing.memory is not None:
        terms["backing"] = tier.backing.memory
    return terms


def check_deployment_memory(
    topology: Topology, engine_kv_bytes: int, *, available_bytes: int, shared_memory_bytes: int
) -> str:
    """The sum of a whole deployment as a line of the plan.

    Raises: DeployError, with the sum, when it is more than there is.
    """
    if isinstance(topology.tier, LmcacheTier):
        check_shared_memory(topology.tier.memory, shared_memory_bytes)
    return check_memory(memory_terms(topology, engine_kv_bytes), available_bytes)


def check_memory(terms: dict[str, int], available_bytes: int) -> str:
    """The sum of `terms` as a line of the plan.

    Raises: DeployError, with the sum written out, when it is more than there is.
    """
    total = sum(terms.values())
    line = " + ".join(f"{name} {size / 2**30:.2f}" for name, size in terms.items())
    text = f"memory: {line} = {total / 2**30:.2f} GiB of {available_bytes / 2**30:.2f} GiB available"
    if total > available_bytes:
        raise DeployError(f"the plan does not fit: {text}", hint="give the tier less memory, or end other programs")
    return text


def check_shared_memory(tier_bytes: int, free_bytes: int) -> None:
    """The tier's memory is a file below /dev/shm.

    Raises: DeployError when there is less.
    """
    if tier_bytes > free_bytes:
        raise DeployError(
            f"tier memory {tier_bytes} B is more than the {free_bytes} B that are free in /dev/shm",
            where="tier.memory",
            hint="give the tier less memory, or mount a larger /dev/shm",
        )
