"""What a plan expects of the caches: which requests will load from the tier, by a stated model.

The model: requests one after another in the order of the schedule; the engine's own cache holds the most recently used
blocks up to its size, the tier holds every whole block that was ever computed. Concurrency, and blocks that running
requests occupy, are left out, so this is an estimate, printed beside what came.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from testbed.workload.request import PlannedRequest


@dataclass(frozen=True)
class Expected:
    """Prompt tokens by source over the measured requests, and which of them, by index, load from the tier."""

    local_tokens: int
    loaded_tokens: int
    computed_tokens: int
    loads_by_class: dict[str, int]
    loading: frozenset[int]


def _blocks(prompt: Sequence[int], block_size: int, salt: str | None) -> list[int]:
    """A name for each whole block, equal exactly where the salt and everything up to its end are equal."""
    names: list[int] = []
    chain = hash(salt)
    for end in range(block_size, len(prompt) + 1, block_size):
        chain = hash((chain, tuple(prompt[end - block_size : end])))
        names.append(chain)
    return names


def _leading(names: Iterable[int], held: "OrderedDict[int, None] | set[int]") -> int:
    count = 0
    for name in names:
        if name not in held:
            break
        count += 1
    return count


def expect(requests: Iterable[PlannedRequest], *, block_size: int, num_blocks: int, with_tier: bool) -> Expected:
    """Walk through the schedule with both caches."""
    engine: OrderedDict[int, None] = OrderedDict()
    tier: set[int] = set()
    local = loaded = computed = 0
    loads: dict[str, int] = {}
    loading: set[int] = set()
    for request in requests:
        names = _blocks(request.prompt, block_size, request.cache_salt)
        usable = names[:-1] if len(names) * block_size == len(request.prompt) else names
        hits = _leading(usable, engine)
        promised = max(0, _leading(usable, tier) - hits) if with_tier else 0
        if request.measured:
            local += hits * block_size
            loaded += promised * block_size
            computed += len(request.prompt) - (hits + promised) * block_size
            if promised:
                loading.add(request.index)
                loads[request.traffic_class] = loads.setdefault(request.traffic_class, 0) + 1
        for name in names:
            engine[name] = None
            engine.move_to_end(name)
        while len(engine) > num_blocks:
            engine.popitem(last=False)
        tier.update(names)
    return Expected(local, loaded, computed, loads, frozenset(loading))
