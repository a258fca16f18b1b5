"""What the plan must know of this machine; found out elsewhere and handed in."""

from collections.abc import Callable
from dataclasses import dataclass

from testbed.workload.scale import Speed


@dataclass(frozen=True)
class ModelFacts:
    """One model. `kv_bytes_per_token` is at the dtype that runs, over all layers.

    `kv_heads` and `weights_bytes` are needed where it is split over GPUs.
    """

    name: str
    folder: str
    dtype: str
    kv_bytes_per_token: int
    max_model_len: int
    kv_heads: int | None = None
    weights_bytes: int | None = None


@dataclass(frozen=True)
class MachineFacts:
    """Programs, ports and memory of this machine. A program is None where it is not installed."""

    python: str
    lmcache: str
    redis: str | None
    busy_ports: frozenset[int]
    available_bytes: int
    shared_memory_bytes: int
    cores: int
    mooncake_master: str | None = None


@dataclass(frozen=True)
class GpuFacts:
    """The GPUs that a plan may use: `nodes` are the addresses of machines with `per_node` of them each.

    With `shared` all engines are on one GPU and divide its memory.
    """

    name: str
    memory_bytes: int
    utilization: float
    reserve_bytes: int
    rdma: bool
    per_node: int
    nodes: tuple[str, ...]
    shared: bool = False


@dataclass(frozen=True)
class Facts:
    """All facts of a plan. `tokens` is the corpus as token ids; `count_tokens` is the model's own count of a text."""

    model: ModelFacts
    machine: MachineFacts
    speed: Speed
    tokens: tuple[int, ...]
    count_tokens: Callable[[str], int] | None = None
