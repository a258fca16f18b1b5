"""LMCache as a server beside the engine: its process, the connector's settings, and its HTTP interface.

A load copies from the server's shared memory into the engine's KV blocks, in the worker and before it goes on. Redis to
shared memory is moved inside LOOKUP. Keys begin with the model's path as the engine was given it; each deployment gives
a path of its own, so that its keys are its own wherever they are kept.
"""

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from testbed.errors import RunError
from testbed.journal.events import ORDERS_KEY, PATH_KEY
from testbed.spec.topology import LoadFailure

NAME = "lmcache"
CONNECTOR = "LMCacheMPConnector"
LOAD_PATH = "shared_memory_copy"
SERVER_ENV = {"LMCACHE_TRACK_USAGE": "false", "LMCACHE_DISABLE_BANNER": "1", "PYTHONHASHSEED": "0"}
HEARTBEAT_S = 2
MESSAGE_LIMIT_S = 8
_KV_RANK = 0x01000100  # one worker, rank 0, as the server packs it into a key


@dataclass(frozen=True)
class LmcachePorts:
    """The three ports of one server, all on loopback."""

    messages: int
    http: int
    prometheus: int


def server_command(
    program: str, memory_bytes: int, ports: LmcachePorts, *, pool: str, chunk_tokens: int,
    redis: tuple[str, int] | None, mode: Literal["engine_driven", "lmcache_driven"] = "engine_driven",
) -> tuple[str, ...]:
    """The LMCache server with `memory_bytes` of shared memory called `pool`, and Redis behind it if given.

    `mode` says who copies: a CPU engine by itself, or the server out of a GPU's memory.
    """
    command = (
        program,
        "server",
        "--host",
        "127.0.0.1",
        "--port",
        str(ports.messages),
        "--chunk-size",
        str(chunk_tokens),
        "--l1-size-gb",
        f"{memory_bytes / 2**30:g}",
        "--eviction-policy",
        "LRU",
        "--supported-transfer-mode",
        mode,
        "--shm-name",
        pool,
        "--http-host",
        "127.0.0.1",
        "--http-port",
        str(ports.http),
        "--prometheus-port",
        str(ports.prometheus),
    )
    if redis is None:
        return command
    return (*command, "--l2-adapter", json.dumps({"type": "resp", "host": redis[0], "port": redis[1]}))


def health_url(ports: LmcachePorts) -> str:
    """Answers 200 once the server can take objects."""
    return f"http://127.0.0.1:{ports.http}/healthcheck"


def shared_memory_name(pool: str) -> str:
    """The file below /dev/shm that the server leaves when it is killed."""
    return f"lmcache_l1_pool_{pool}"


def transfer_config(ports: LmcachePorts, failure: LoadFailure, orders_path: str) -> dict[str, Any]:
    """What the engine gets as `--kv-transfer-config`: the probed connector, its orders, and the policy in words."""
    return {
        "kv_connector": f"Probed{CONNECTOR}",
        "kv_connector_module_path": "testbed.probe.connector",
        "kv_role": "kv_both",
        "kv_load_failure_policy": failure.policy,
        "kv_connector_extra_config": {
            "lmcache.mp.host": "tcp://127.0.0.1",
            "lmcache.mp.port": ports.messages,
            "lmcache.mp.heartbeat_interval": HEARTBEAT_S,
            "lmcache.mp.mq_timeout": MESSAGE_LIMIT_S,
            ORDERS_KEY: orders_path,
            PATH_KEY: LOAD_PATH,
        },
    }


def chunk_hashes(prompts: Iterable[tuple[int, ...]], chunk_tokens: int) -> dict[tuple[int, ...], list[str]]:
    """The names of each prompt's whole chunks, by the product's own hasher."""
    # The product logs to the terminal of whoever imports it, at a level that it reads from the environment.
    os.environ.setdefault("LMCACHE_LOG_LEVEL", "WARNING")
    from lmcache.v1.multiprocess.token_hasher import TokenHasher

    hasher = TokenHasher(chunk_tokens, "blake3")
    return {prompt: [one.hex() for one in hasher.compute_chunk_hashes(list(prompt))] for prompt in prompts}


@dataclass(frozen=True)
class Deleted:
    """The server's own answer to a deletion: copies removed and copies that it kept, over all levels."""

    deleted: int
    skipped: int


class LmcacheServer:
    """Asks a running server. Each call has a deadline, is made once, and raises RunError with the server's words."""

    def __init__(self, http_port: int, model_path: str, chunk_tokens: int, limit_s: float = 10.0) -> None:
        import httpx

        self._client = httpx.Client(
            base_url=f"http://127.0.0.1:{http_port}",
            timeout=limit_s,
            transport=httpx.HTTPTransport(retries=0),
            trust_env=False,
        )
        self._errors = httpx.HTTPError
        self._model_path = model_path
        self._names: dict[tuple[int, ...], list[str]] = {}
        self.chunk_tokens = chunk_tokens

    def _ask(self, method: str, path: str, body: object = None) -> Any:
        try:
            answer = self._client.request(method, path, json=body)
        except self._errors as problem:
            raise RunError(f"{method} {path}: {problem}", where="lmcache") from problem
        if answer.status_code != 200:
            raise RunError(f"{method} {path} answered {answer.status_code}: {answer.text[:200]}", where="lmcache")
        return answer.json()

    def close(self) -> None:
        """Give the connections back."""
        self._client.close()

    def learn(self, prompts: Iterable[tuple[int, ...]]) -> None:
        """Work out the names of the prompts' objects beforehand: the first time it takes seconds."""
        fresh = [prompt for prompt in prompts if prompt not in self._names]
        if fresh:
            self._names |= chunk_hashes(fresh, self.chunk_tokens)

    def delete_prompt(self, prompt: tuple[int, ...]) -> Deleted:
        """Remove the objects of one prompt from all levels, also those that a lookup has locked."""
        self.learn([prompt])
        keys = [
            {"chunk_hash_hex": name, "model_name": self._model_path, "kv_rank": _KV_RANK, "object_group_id": 0}
            for name in self._names[prompt]
        ]
        answer = self._ask("DELETE", "/cache/objects", {"keys": keys, "tier": "all", "force": True})
        return Deleted(int(answer["deleted"]), int(answer["skipped"]))

    def clear_memory(self) -> None:
        """Empty the server's memory, whatever is locked there."""
        self._ask("POST", "/cache/clear", {"force": True})

    def _storage(self) -> Any:
        return self._ask("GET", "/status")["storage_manager"]

    def objects_in_memory(self) -> int:
        """How many objects the server's memory holds."""
        return int(self._storage()["l1_manager"]["total_object_count"])

    def saves_in_flight(self) -> int:
        """Objects that are still being written: into memory, or from there to the backing."""
        status = self._storage()
        store = status["store_controller"]
        return (
            int(status["l1_manager"]["write_locked_count"])
            + int(store["pending_keys_count"])
            + int(store["in_flight_task_count"])
        )

    def counters(self) -> dict[str, float]:
        """The server's own counts under neutral names; a count that it does not show is absent."""
        try:
            text = self._client.get("/metrics").text
        except self._errors as problem:
            raise RunError(f"GET /metrics: {problem}", where="lmcache") from problem
        return read_counters(text)


_NAMES = {
    "lmcache_mp_lookup_requested_tokens_total": "lookup_tokens",
    "lmcache_mp_lookup_hit_l1_tokens_total": "hit_memory_tokens",
    "lmcache_mp_lookup_hit_l2_tokens_total": "hit_backing_tokens",
    "lmcache_mp_l1_memory_usage_bytes": "memory_used_bytes",
    "lmcache_mp_l2_usage_bytes": "backing_used_bytes",
}


def read_counters(text: str) -> dict[str, float]:
    """Our names and sums out of a Prometheus page."""
    found: dict[str, float] = {}
    for line in text.splitlines():
        name = line.partition("{")[0].partition(" ")[0]
        if name in _NAMES:
            ours = _NAMES[name]
            found[ours] = found.setdefault(ours, 0.0) + float(line.rpartition(" ")[2])
    return found
