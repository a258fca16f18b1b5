"""Mooncake Store as a tier: its master beside the engines, their settings, and what can be asked of it.

The bytes lie in segments that the engines themselves lend, in their own processes; the master only knows where. A load
from an engine's own segment is a copy in its memory, one from another engine's goes over the network. The engine asks
the master within its scheduler and waits for the answer: a master that stands still stops the engine.

Objects are named by the last part of the model's path and by the engine's own block hashes, so two deployments on one
master would share them. Each deployment has a master of its own, and clearing it clears nothing of anybody else.
"""

import hashlib
import json
import os
import pickle
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from testbed.errors import RunError
from testbed.journal.events import ORDERS_KEY, PATH_KEY
from testbed.spec.topology import LoadFailure

NAME = "mooncake_store"
CONNECTOR = "MooncakeStoreConnector"
LOAD_PATH = "memory_copy"  # the fastest way there is: out of the engine's own segment
RPC, METADATA, METRICS = "rpc", "metadata", "metrics"
MASTER_PORTS: tuple[str, ...] = (RPC, METADATA, METRICS)
LOCAL_BUFFER_BYTES = 64 * 2**20  # of each engine, beside its segment
LEASE_S = 5.0
HASH_SEED = "0"
_NOT_THERE = -704
_CLIENT_BUFFER_BYTES = 16 * 2**20

Protocol = Literal["tcp", "rdma"]


def master_command(program: str, ports: Mapping[str, int], lease_s: float = LEASE_S) -> tuple[str, ...]:
    """The master, with the metadata server in it. An object that was looked up is not evicted for `lease_s`.

    It can't be started again on the same ports at once: the system still holds them for some seconds.
    """
    return (
        program,
        "--rpc_address=127.0.0.1",
        f"--rpc_port={ports[RPC]}",
        "--enable_http_metadata_server=true",
        "--http_metadata_server_host=127.0.0.1",
        f"--http_metadata_server_port={ports[METADATA]}",
        "--metrics_host=127.0.0.1",
        f"--metrics_port={ports[METRICS]}",
        f"--default_kv_lease_ttl={lease_s * 1000:.0f}",
    )


def master_ready_url(ports: Mapping[str, int]) -> str:
    """Answers 200 once the master serves."""
    return f"http://127.0.0.1:{ports[METRICS]}/health"


def client_config(ports: Mapping[str, int], segment_bytes: int, protocol: Protocol = "tcp") -> str:
    """The text of the file that each engine is pointed to; it lends `segment_bytes` of its memory."""
    return json.dumps({
        "metadata_server": f"http://127.0.0.1:{ports[METADATA]}/metadata",
        "master_server_address": f"127.0.0.1:{ports[RPC]}",
        "protocol": protocol,
        "device_name": "",
        "global_segment_size": segment_bytes,
        "local_buffer_size": LOCAL_BUFFER_BYTES,
    })


def transfer_config(failure: LoadFailure, orders_path: str, lookup: int = 0) -> dict[str, Any]:
    """What an engine gets as `--kv-transfer-config`.

    `lookup` is a number that no other engine of this machine has, its port for instance: a socket is named by it.
    """
    return {
        "kv_connector": f"Probed{CONNECTOR}",
        "kv_connector_module_path": "testbed.probe.connector",
        "kv_role": "kv_both",
        "kv_load_failure_policy": failure.policy,
        "kv_connector_extra_config": {"lookup_rpc_port": lookup, ORDERS_KEY: orders_path, PATH_KEY: LOAD_PATH},
    }


def engine_env(config_path: str) -> dict[str, str]:
    """What an engine's environment needs besides."""
    return {"MOONCAKE_CONFIG_PATH": config_path, "PYTHONHASHSEED": HASH_SEED}


def block_hashes(prompt: tuple[int, ...], block_tokens: int) -> list[str]:
    """The engine's names of a prompt's whole blocks, each of which stands for all that comes before it too.

    They are those of vLLM 0.32 with its own choice of hash (sha256 of the pickled parent, tokens and extra keys), for a
    prompt without salt, adapter or images, asked by an engine whose PYTHONHASHSEED is `HASH_SEED`.
    """
    parent, names = _sha256(HASH_SEED), []
    for start in range(0, len(prompt) // block_tokens * block_tokens, block_tokens):
        parent = _sha256((parent, tuple(prompt[start : start + block_tokens]), None))
        names.append(parent.hex())
    return names


def _sha256(content: object) -> bytes:
    return hashlib.sha256(pickle.dumps(content, protocol=pickle.HIGHEST_PROTOCOL)).digest()


@dataclass(frozen=True)
class Deleted:
    """How many objects are gone, and how many the store kept."""

    deleted: int
    skipped: int


class MooncakeStore:
    """Asks a running master; for what it does not let us ask by HTTP a client of the product's own is made each time.

    Each call has a deadline, is made once, and raises RunError with the master's words.
    """

    def __init__(self, ports: Mapping[str, int], model_path: str, chunk_tokens: int, limit_s: float = 10.0) -> None:
        import httpx

        self._ports = ports
        self._client = httpx.Client(
            base_url=f"http://127.0.0.1:{ports[METRICS]}",
            timeout=limit_s,
            transport=httpx.HTTPTransport(retries=0),
            trust_env=False,
        )
        self._errors = httpx.HTTPError
        self._model = model_path.rstrip("/").rpartition("/")[2]
        self._names: dict[tuple[int, ...], list[str]] = {}
        self.chunk_tokens = chunk_tokens

    def _ask(self, path: str) -> str:
        try:
            answer = self._client.get(path)
        except self._errors as problem:
            raise RunError(f"GET {path}: {problem}", where=NAME) from problem
        if answer.status_code != 200:
            raise RunError(f"GET {path} answered {answer.status_code}: {answer.text[:200]}", where=NAME)
        return answer.text

    def close(self) -> None:
        """Give the connections back."""
        self._client.close()

    def learn(self, prompts: Iterable[tuple[int, ...]]) -> None:
        """Work out the names of the prompts' objects beforehand."""
        self._names |= {one: self.keys_of(one) for one in prompts if one not in self._names}

    def keys_of(self, prompt: tuple[int, ...]) -> list[str]:
        """The names of a prompt's objects, for engines of one worker."""
        place = f"{self._model}@tp_rank:0@pcp0@dcp0@pp_rank:0@group:0"
        return [f"{place}@{name}" for name in block_hashes(prompt, self.chunk_tokens)]

    def delete_prompt(self, prompt: tuple[int, ...]) -> Deleted:
        """Remove the objects of one prompt, also those that a lookup has leased."""
        self.learn([prompt])
        with self._connected() as store:
            codes = store.batch_remove(self._names[prompt], True)
        kept = [code for code in codes if code not in (0, _NOT_THERE)]
        return Deleted(sum(code == 0 for code in codes), len(kept))

    def clear_memory(self) -> None:
        """Remove all objects, also those that a lookup has leased."""
        with self._connected() as store:
            code = store.remove_all(True)
        if code < 0:
            raise RunError(f"could not be cleared: remove_all answered {code}", where=NAME)

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        """A client that lends nothing."""
        # The product logs to the terminal of whoever uses it, at a level that it reads from the environment.
        os.environ.setdefault("GLOG_minloglevel", "2")
        from mooncake.store import MooncakeDistributedStore

        store = MooncakeDistributedStore()
        code = store.setup(
            "127.0.0.1", f"http://127.0.0.1:{self._ports[METADATA]}/metadata", 0, _CLIENT_BUFFER_BYTES, "tcp", "",
            f"127.0.0.1:{self._ports[RPC]}",
        )
        if code != 0:
            raise RunError(f"lets no client in: set-up answered {code}", where=NAME)
        try:
            yield store
        finally:
            store.close()

    def objects_in_memory(self) -> int:
        """How many objects the store holds."""
        return len(self.keys())

    def keys(self) -> list[str]:
        """The names of all objects."""
        return [line for line in self._ask("/get_all_keys").splitlines() if line]

    def saves_in_flight(self) -> int:
        """Objects whose writing has begun and not ended; what an engine has not begun yet the store can't know."""
        return saves_in_flight(self._ask("/metrics"))

    def counters(self) -> dict[str, float]:
        """The master's own counts under neutral names; a count that it does not show is absent."""
        return read_counters(self._ask("/metrics"))


_NAMES = {
    "master_key_count": "objects",
    "master_allocated_bytes": "memory_used_bytes",
    "master_total_capacity_bytes": "memory_bytes",
    "master_batch_exist_key_items_total": "lookup_objects",
    "master_evicted_key_count": "evicted_objects",
    "master_put_start_alloc_failures_total": "refused_objects",
}
_BEGUN = ("master_batch_put_start_items_total", "master_put_start_requests_total")
_OVER = (
    "master_batch_put_start_failed_items_total", "master_put_start_failures_total",
    "master_batch_put_end_items_total", "master_put_end_requests_total",
    "master_batch_put_revoke_items_total", "master_put_revoke_requests_total",
)


def _values(text: str) -> dict[str, float]:
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    found: dict[str, float] = {}
    for line in lines:
        name = line.partition("{")[0].partition(" ")[0]
        found[name] = found.setdefault(name, 0.0) + float(line.rpartition(" ")[2])
    return found


def read_counters(text: str) -> dict[str, float]:
    """Our names and sums out of a Prometheus page."""
    return {_NAMES[name]: value for name, value in _values(text).items() if name in _NAMES}


def saves_in_flight(text: str) -> int:
    """Writes begun less those that were ended, refused or taken back, out of a Prometheus page."""
    values = _values(text)
    begun = sum(values[name] for name in _BEGUN if name in values)
    return round(begun - sum(values[name] for name in _OVER if name in values))
