"""An engine and a tier as small as they can be, around the real probe: the fake end of the seam that orders travel.

The probed connector is made by the same code as in a real engine, once for the scheduler and once for the worker. A
token's KV is the token itself, so that the answer to a prompt, which is what stands in its blocks, shows a wrong block.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from testbed.journal.events import ORDERS_KEY, PATH_KEY
from testbed.probe.connector import probed
from tests.probe.fakes import WIDTH, Cached, FakeBlocks, FakeCache, FakeStep, New

BLOCK_COUNT = 64
PASS_EVERY_S = 0.001
ANSWER_LIMIT_S = 20.0
Stored = dict[tuple[int, ...], tuple[int, ...]]


@dataclass
class Asked:
    """One request inside the engine."""

    request_id: str
    prompt: tuple[int, ...]
    blocks: list[int] = field(default_factory=list)
    loaded: int = 0
    loading: bool = False
    answer: tuple[int, ...] = ()
    over: threading.Event = field(default_factory=threading.Event)

    @property
    def num_prompt_tokens(self) -> int:
        return len(self.prompt)


class FakeConnector:
    """A connector as the engine calls it: it promises at the second time of asking, and copies in `start_load_kv`."""

    def __init__(self, config: Any, role: Any, kv_cache_config: Any = None) -> None:
        self.stored: Stored = config.stored
        self.asked: set[str] = set()
        self.chosen: dict[str, tuple[Asked, list[int]]] = {}
        self.received: set[str] = set()

    def get_num_new_matched_tokens(self, request: Asked, num_computed_tokens: int) -> tuple[int | None, bool]:
        if request.request_id not in self.asked:
            self.asked.add(request.request_id)
            return None, True
        whole = len(request.prompt) // WIDTH * WIDTH
        return (whole, True) if request.prompt[:whole] in self.stored else (0, False)

    def update_state_after_alloc(self, request: Asked, blocks: FakeBlocks, num_external_tokens: int) -> None:
        if num_external_tokens:
            self.chosen[request.request_id] = (request, blocks.ids[: num_external_tokens // WIDTH])

    def build_connector_meta(self, scheduler_output: Any) -> Any:
        chosen, self.chosen = self.chosen, {}
        return SimpleNamespace(chosen=chosen)

    def update_connector_output(self, connector_output: Any) -> None:
        """Nothing to learn from it."""

    def request_finished(self, request: Asked, block_ids: Any) -> tuple[bool, None]:
        whole = len(request.prompt) // WIDTH * WIDTH
        self.stored[request.prompt[:whole]] = request.prompt[:whole]
        return False, None

    def register_kv_caches(self, kv_caches: dict[str, FakeCache]) -> None:
        [self.cache] = kv_caches.values()

    def bind_connector_metadata(self, connector_metadata: Any) -> None:
        self.bound = connector_metadata.chosen

    def start_load_kv(self, forward_context: Any) -> None:
        for request, blocks in self.bound.values():
            for place, block in enumerate(blocks):
                self.cache.values[:, block] = request.prompt[place * WIDTH : (place + 1) * WIDTH]
            self.received.add(request.request_id)
        self.bound = {}

    def get_transfer_results(self, finished_req_ids: set[str]) -> Any:
        received, self.received = self.received, set()
        return SimpleNamespace(finished_sending=set(), finished_recving=received, failed_recving=set())

    def get_block_ids_with_load_errors(self) -> set[int]:
        return set()


class FakeEngine:
    """Takes requests and works on all of them, pass by pass, as the scheduler of an engine does."""

    def __init__(self, orders: Path) -> None:
        self._lock = threading.Lock()
        self._requests: list[Asked] = []
        self._free = list(range(BLOCK_COUNT))
        self._cache = FakeCache(BLOCK_COUNT)
        extra = {ORDERS_KEY: str(orders), PATH_KEY: "memory"}
        config = SimpleNamespace(
            stored={}, kv_transfer_config=SimpleNamespace(kv_connector_extra_config=extra),
            cache_config=SimpleNamespace(block_size=WIDTH), parallel_config=SimpleNamespace(world_size=1),
        )
        made, memory = probed(FakeConnector), SimpleNamespace(num_blocks=BLOCK_COUNT)
        self._scheduler: Any = made(config, SimpleNamespace(name="SCHEDULER"), memory)
        self._worker: Any = made(config, SimpleNamespace(name="WORKER"), memory)
        self._worker.register_kv_caches({"layer": self._cache})

    def ask(self, prompt: tuple[int, ...], name: str) -> tuple[int, ...]:
        """What stands in the prompt's blocks once it was worked on."""
        request = Asked(f"cmpl-{name}-0-0123abcd", prompt)
        with self._lock:
            self._requests.append(request)
        assert request.over.wait(ANSWER_LIMIT_S), f"{name} was never answered"
        return request.answer

    def work(self) -> None:
        """One pass: ask for promises, load, take in what was loaded, compute the rest."""
        with self._lock:
            for request in [one for one in self._requests if not one.blocks]:
                self._admit(request)
            ready = [one for one in self._requests if one.blocks and not one.loading]
            self._transfer(self._scheduler.build_connector_meta(self._step(ready)))
            for request in ready:
                self._compute(request)

    def _admit(self, request: Asked) -> None:
        tokens, _ = self._scheduler.get_num_new_matched_tokens(request, 0)
        if tokens is None:
            return
        count = -(-len(request.prompt) // WIDTH)
        request.blocks, self._free = self._free[:count], self._free[count:]
        request.loaded, request.loading = tokens, bool(tokens)
        self._scheduler.update_state_after_alloc(request, FakeBlocks(request.blocks), tokens)

    def _step(self, ready: list[Asked]) -> FakeStep:
        counts = {one.request_id: len(one.prompt) - one.loaded for one in ready if len(one.prompt) > one.loaded}
        return FakeStep(counts, [New(one.request_id, one.loaded) for one in ready], Cached())

    def _transfer(self, meta: Any) -> None:
        self._worker.bind_connector_metadata(meta)
        self._worker.start_load_kv(None)
        results = self._worker.get_transfer_results(set())
        invalid = self._worker.get_block_ids_with_load_errors()
        self._scheduler.update_connector_output(SimpleNamespace(
            finished_recving=results.finished_recving, failed_recving=results.failed_recving, invalid_block_ids=invalid,
        ))
        for request in self._requests:
            if request.request_id in results.finished_recving:
                request.loading = False

    def _compute(self, request: Asked) -> None:
        for place in range(request.loaded, len(request.prompt)):
            self._cache.values[:, request.blocks[place // WIDTH], place % WIDTH] = request.prompt[place]
        read = [int(self._cache.values[0, block, slot]) for block in request.blocks for slot in range(WIDTH)]
        request.answer = tuple(read[: len(request.prompt)])
        self._scheduler.request_finished(request, request.blocks)
        self._free += request.blocks
        self._requests.remove(request)
        request.over.set()


@contextmanager
def running(orders: Path) -> Iterator[FakeEngine]:
    """An engine that works in a thread of its own."""
    engine, over = FakeEngine(orders), threading.Event()

    def loop() -> None:
        while not over.wait(PASS_EVERY_S):
            engine.work()

    thread = threading.Thread(target=loop)
    thread.start()
    try:
        yield engine
    finally:
        over.set()
        thread.join()
