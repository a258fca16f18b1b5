"""What the probe sees of an engine, as small as it can be: requests, blocks, steps and KV memory."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

BLOCKS = 8
WIDTH = 4


@dataclass
class FakeRequest:
    """What the probe reads of an engine's request."""

    request_id: str
    num_prompt_tokens: int = 100


@dataclass
class FakeBlocks:
    """The blocks of one request."""

    ids: list[int]

    def get_block_ids(self) -> tuple[list[int], ...]:
        return (self.ids,)


@dataclass
class Cached:
    """Requests of a step that ran before."""

    req_ids: list[str] = field(default_factory=list)
    num_computed_tokens: list[int] = field(default_factory=list)


@dataclass
class New:
    """A request that a step schedules for the first time."""

    req_id: str
    num_computed_tokens: int


@dataclass
class FakeStep:
    """What the probe reads of a scheduler's output."""

    num_scheduled_tokens: dict[str, int]
    scheduled_new_reqs: list[New]
    scheduled_cached_reqs: Cached
    preempted_req_ids: set[str] | None = None

    @property
    def total_num_scheduled_tokens(self) -> int:
        return sum(self.num_scheduled_tokens.values())


class FakeBlock:
    """One block of a fake KV tensor."""

    def __init__(self, values: "np.ndarray[Any, Any]") -> None:
        self.values = values

    def zero_(self) -> None:
        self.values[...] = 0

    def copy_(self, other: "FakeBlock") -> None:
        self.values[...] = other.values

    def clone(self) -> "FakeBlock":
        return FakeBlock(self.values.copy())


class FakeCache:
    """The KV of one layer: [2, blocks, 4 values of 4 bytes], each block filled with its number."""

    def __init__(self, blocks: int = BLOCKS) -> None:
        numbers = np.arange(blocks, dtype=np.float32).reshape(1, blocks, 1)
        self.values = np.zeros((2, blocks, WIDTH), np.float32) + numbers
        self.shape = self.values.shape

    def numel(self) -> int:
        return self.values.size

    def element_size(self) -> int:
        return self.values.itemsize

    def select(self, axis: int, number: int) -> FakeBlock:
        return FakeBlock(self.values[:, number])
