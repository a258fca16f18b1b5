"""Each connector between real engines, as small as it can be: one engine with a tier, or prefill and decode.

The prompts have ten whole blocks of 32 tokens and ten tokens more.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from testbed.clock import wait_for
from testbed.deploy.processes import free_port
from testbed.deploy.ready import is_ready
from testbed.journal.events import KvLoadEnded
from testbed.journal.legs import leg_id
from testbed.plan.component import Ready
from testbed.spec.topology import LoadFailure
from testbed.tiers import files, lmcache, mooncake_store
from testbed.tiers.files import FileTier
from testbed.tiers.mooncake_store import MooncakeStore
from testbed.transfers import mooncake_p2p, nixl
from testbed.transfers.combined import combined_config
from testbed.transfers.handoff import Link, raw
from testbed.transfers.table import HANDOFFS
from tests.engine.by_hand import (
    BLOCK,
    Answer,
    Engine,
    Wanted,
    answer_of,
    command_beside,
    engines,
    orders_path,
    process,
    prompt_of,
)

RECOMPUTE = LoadFailure(policy="recompute", attempts=1)
GIVE_UP_S = 24.0  # of a transfer; far above what one takes here
PROMPT_TOKENS = 10 * BLOCK + 10
WHOLE = 10 * BLOCK
BLOCK_BYTES = BLOCK * 2 * 8 * 4 * 64 * 4  # K and V, 8 layers, 4 KV heads of 64, 4 bytes
ANSWER_TOKENS = 12
PROMPTS = {seed: prompt_of(seed, PROMPT_TOKENS) for seed in range(12)}
Golden = Mapping[int, Answer]


@dataclass
class Stored:
    """An engine with a tier behind it. `whole` tokens of each prompt can be loaded from it."""

    engine: Engine
    tier: Any
    golden: Golden
    whole: int
    is_async: bool
    objects: int

    def save(self, seed: int) -> None:
        """Let the engine compute a prompt, see it in the tier, and forget it in the engine."""
        before = self.tier.objects_in_memory()
        assert self.engine.ask(PROMPTS[seed], ANSWER_TOKENS, f"save.{seed}") == self.golden[seed]
        wait_for(
            lambda: self.tier.objects_in_memory() == before + self.objects and self.tier.saves_in_flight() == 0,
            limit_s=30, what="the save to end",
        )
        self.engine.forget()

    def load(self, seed: int, name: str) -> KvLoadEnded:
        """Ask again, and see the answer right."""
        assert self.engine.ask(PROMPTS[seed], ANSWER_TOKENS, name) == self.golden[seed]
        return self.engine.one(KvLoadEnded, name)


@contextmanager
def in_mooncake_store(tiny_model: Path, golden: Golden, folder: Path) -> Iterator[Stored]:
    """Mooncake Store with a short lease, and an engine that lends it 256 MiB."""
    ports = {name: free_port("127.0.0.1") for name in mooncake_store.MASTER_PORTS}
    config = folder / "mooncake.json"
    config.write_text(mooncake_store.client_config(ports, 256 * 2**20))
    transfer = mooncake_store.transfer_config(RECOMPUTE, str(orders_path(folder, "engine")), lookup=ports["rpc"])
    wanted = Wanted("engine", transfer, mooncake_store.engine_env(str(config)))
    master = mooncake_store.master_command(command_beside("mooncake_master"), ports, lease_s=0.5)
    with process(master, folder / "master.log"):
        ready = Ready(limit_s=1.0, url=mooncake_store.master_ready_url(ports))
        wait_for(lambda: is_ready(ready, limit_s=1.0), limit_s=20, what="the master")
        with (
            engines(tiny_model, folder, [wanted]) as [engine],
            closing(MooncakeStore(ports, str(tiny_model), BLOCK)) as tier,
        ):
            yield Stored(engine, tier, golden, WHOLE, is_async=True, objects=10)


@contextmanager
def in_files(tiny_model: Path, golden: Golden, folder: Path) -> Iterator[Stored]:
    """vLLM's ExampleConnector, whose loads are synchronous."""
    kept = folder / "kept"
    kept.mkdir()
    wanted = Wanted("engine", files.transfer_config(str(kept), RECOMPUTE, str(orders_path(folder, "engine"))))
    with engines(tiny_model, folder, [wanted]) as [engine]:
        yield Stored(engine, FileTier(kept, BLOCK), golden, WHOLE, is_async=False, objects=1)


TIERS: Mapping[str, Callable[[Path, Golden, Path], AbstractContextManager[Stored]]] = {
    "mooncake_store": in_mooncake_store, "files": in_files,
}


@dataclass
class Pair:
    """A prefill and a decode engine, and how a request is handed from one to the other."""

    kind: str
    prefill: Engine
    decode: Engine
    golden: Golden
    peer_url: str | None = None

    def ask(self, seed: int, tokens: int, name: str) -> Answer:
        """As the router would."""
        handoff, link = HANDOFFS[self.kind], self.link(name)
        first = _params(handoff.prefill({"prompt": raw(1)}, link))
        with ThreadPoolExecutor(1) as pool:
            leg = pool.submit(self.prefill.answer, PROMPTS[seed], 1, leg_id(name, "prefill"), first)
            told = b"" if handoff.together else json.dumps(leg.result(60)).encode()
            answer = self.ask_decode(seed, tokens, name, link, told)
            leg.result(60)
        return answer

    def link(self, name: str) -> Link:
        """What ties the legs of a request together; prefill is asked who it is, where that is needed."""
        question = HANDOFFS[self.kind].question
        if question is None:
            return Link(f"transfer-{name}")
        answer = httpx.get(f"{self.peer_url}{question.path}", timeout=10, trust_env=False)
        return Link(f"transfer-{name}", question.read(answer.content), self.peer_url)

    def ask_decode(self, seed: int, tokens: int, name: str, link: Link, told: bytes = b"") -> Answer:
        """The second leg; `told` is what prefill answered."""
        params = _params(HANDOFFS[self.kind].decode({"prompt": raw(1)}, link, told))
        return answer_of(self.decode.answer(PROMPTS[seed], tokens, leg_id(name, "decode"), params))


def _params(body: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(bytes(body["kv_transfer_params"]))
    return found


@contextmanager
def by_mooncake(tiny_model: Path, golden: Golden, folder: Path) -> Iterator[Pair]:
    """Mooncake, from engine to engine."""
    ports = {role: {"bootstrap": free_port("127.0.0.1")} for role in ("prefill", "decode")}
    wanted = [
        Wanted(
            role, mooncake_p2p.connector_config(role, RECOMPUTE, str(orders_path(folder, role))),
            mooncake_p2p.engine_env(ports[role], role, give_up_s=GIVE_UP_S),
        )
        for role in ("prefill", "decode")
    ]
    with engines(tiny_model, folder, wanted) as [prefill, decode]:
        yield Pair("mooncake_p2p", prefill, decode, golden, f"http://127.0.0.1:{ports['prefill']['bootstrap']}")


@contextmanager
def by_nixl(tiny_model: Path, golden: Golden, folder: Path) -> Iterator[Pair]:
    """NIXL."""
    wanted = [
        Wanted(
            role, nixl.connector_config(role, RECOMPUTE, str(orders_path(folder, role))),
            nixl.engine_env({"side_channel": free_port("127.0.0.1")}),
        )
        for role in ("prefill", "decode")
    ]
    with engines(tiny_model, folder, wanted) as [prefill, decode]:
        yield Pair("nixl", prefill, decode, golden)


@contextmanager
def by_nixl_beside_lmcache(tiny_model: Path, golden: Golden, folder: Path) -> Iterator[Pair]:
    """NIXL from prefill to decode, and one LMCache server behind both."""
    ports = lmcache.LmcachePorts(*(free_port("127.0.0.1") for _ in range(3)))
    server = lmcache.server_command(
        command_beside("lmcache"), 256 * 2**20, ports, pool=f"by_hand_{ports.http}", chunk_tokens=BLOCK, redis=None
    )
    wanted = []
    for role in ("prefill", "decode"):
        orders = str(orders_path(folder, role))
        config = combined_config(
            nixl.connector_config(role, RECOMPUTE, orders), lmcache.transfer_config(ports, RECOMPUTE, orders),
            RECOMPUTE, orders,
        )
        wanted.append(Wanted(role, config, nixl.engine_env({"side_channel": free_port("127.0.0.1")})))
    try:
        with process(server, folder / "lmcache.log", lmcache.SERVER_ENV):
            ready = Ready(limit_s=1.0, url=lmcache.health_url(ports))
            wait_for(lambda: is_ready(ready, limit_s=1.0), limit_s=60, what="lmcache")
            with engines(tiny_model, folder, wanted) as [prefill, decode]:
                yield Pair("nixl", prefill, decode, golden)
    finally:
        Path("/dev/shm", lmcache.shared_memory_name(f"by_hand_{ports.http}")).unlink(missing_ok=True)


PAIRS: Mapping[str, Callable[[Path, Golden, Path], AbstractContextManager[Pair]]] = {
    "mooncake_p2p": by_mooncake, "nixl": by_nixl, "nixl_lmcache": by_nixl_beside_lmcache,
}
