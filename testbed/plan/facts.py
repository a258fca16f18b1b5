"""What the plan must know of this machine; found out elsewhere and handed in."""

from collections.abc import Callable
from dataclasses import dataclass

from testbed.workload.scale import Speed


@dataclass(frozen=True)
class ModelFacts:
    """One model on this disk. `kv_bytes_per_token` is at the dtype that runs, over all layers."""

    name: str
    folder: str
    dtype: str
    kv_bytes_per_token: int
    max_model_len: int


@dataclass(frozen=True)
class MachineFacts:
    """Programs, ports and memory of this machine. `redis` is None where there is no redis-server."""

    python: str
    lmcache: str
    redis: str | None
    busy_ports: frozenset[int]
    available_bytes: int
    shared_memory_bytes: int
    cores: int


@dataclass(frozen=True)
class Facts:
    """All facts of a plan. `tokens` is the corpus as token ids; `count_tokens` is the model's own count of a text."""

    model: ModelFacts
    machine: MachineFacts
    speed: Speed
    tokens: tuple[int, ...]
    count_tokens: Callable[[str], int] | None = None
