"""The memory of engines on GPUs: what weights and reserve leave for KV, and a refusal where that is too little."""

import math
from dataclasses import dataclass

from testbed.errors import DeployError, SpecError
from testbed.plan.facts import GpuFacts, ModelFacts

GIB = 2**30


@dataclass(frozen=True)
class GpuMemory:
    """The memory of one replica on each of its GPUs. `share` is what the engine is told; `tokens` fit into its KV."""

    share: float
    usable_bytes: int
    weights_bytes: int
    reserve_bytes: int
    kv_bytes_per_token: int

    @property
    def kv_bytes(self) -> int:
        """What is left for KV; below 0 where not even the weights fit."""
        return self.usable_bytes - self.weights_bytes - self.reserve_bytes

    @property
    def tokens(self) -> int:
        """Tokens of KV that fit."""
        return max(0, self.kv_bytes // self.kv_bytes_per_token)


def gpu_share(gpus: GpuFacts, engines: int) -> float:
    """The part of a GPU's memory that each engine on it may use, to a hundredth: its flag then says it whole."""
    return math.floor(gpus.utilization * 100 / (engines if gpus.shared else 1)) / 100


def gpu_memory(model: ModelFacts, gpus: GpuFacts, ranks: int, engines: int) -> GpuMemory:
    """What each of the `ranks` GPUs of a replica holds: its part of the weights, and its part of each token's KV.

    A head is not split: with more ranks than KV heads each rank holds one.
    Raises: SpecError for a model that does not say how large it is.
    """
    if model.weights_bytes is None or model.kv_heads is None:
        raise SpecError(f"model {model.name} does not say what its weights take", where="model", hint="give it a shape")
    share = gpu_share(gpus, engines)
    return GpuMemory(
        share=share,
        usable_bytes=int(share * gpus.memory_bytes),
        weights_bytes=-(-model.weights_bytes // ranks),
        reserve_bytes=gpus.reserve_bytes,
        kv_bytes_per_token=model.kv_bytes_per_token // model.kv_heads * -(-model.kv_heads // ranks),
    )


def memory_line(name: str, memory: GpuMemory, gpus: GpuFacts, max_model_len: int) -> str:
    """The sum of one engine as a line of the plan.

    Raises: DeployError, with the sum, where it has no room for one request of `max_model_len` tokens.
    """
    text = (
        f"{name}: a GPU of {gpus.memory_bytes / GIB:.2f} GiB x {memory.share:g} = {memory.usable_bytes / GIB:.2f} GiB"
        f" - weights {memory.weights_bytes / GIB:.2f} - reserve {memory.reserve_bytes / GIB:.2f}"
        f" = {memory.kv_bytes / GIB:.2f} GiB for KV"
    )
    needed = max_model_len * memory.kv_bytes_per_token
    request = f"a request of {max_model_len} tokens x {memory.kv_bytes_per_token} B takes {needed / GIB:.2f} GiB"
    if memory.kv_bytes < needed:
        raise DeployError(
            f"the plan does not fit: {text}; {request}",
            hint="take a smaller model, more tensor_parallel, a larger GPU, or another context (hardware file)",
        )
    return f"{text}, {memory.tokens} tokens x {memory.kv_bytes_per_token} B; {request}"
