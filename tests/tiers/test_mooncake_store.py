"""Mooncake Store from outside: its command and files, the names of its objects, and what is asked of its master."""

import json
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.errors import RunError
from testbed.journal.events import ORDERS_KEY
from testbed.spec.topology import LoadFailure
from testbed.tiers.mooncake_store import (
    MASTER_PORTS,
    Deleted,
    MooncakeStore,
    block_hashes,
    client_config,
    engine_env,
    master_command,
    master_ready_url,
    read_counters,
    saves_in_flight,
    transfer_config,
)

PORTS = {"rpc": 5001, "metadata": 5002, "metrics": 5003}
PROMPT = tuple(range(3, 73))
# What vLLM 0.32 itself gave for these 70 tokens in blocks of 32 with PYTHONHASHSEED=0.
HASHES = [
    "eaf890b140e2cb89505e054cf88e71ec49d8e767558aebea5d8ecc8383f3ea1a",
    "87b9462bf0d55bb02746934f2a934496569585bc65418a61789f8b7011f68b4a",
]
METRICS = """\
# HELP master_key_count Total number of keys managed by the master
# TYPE master_key_count gauge
master_key_count 12
master_allocated_bytes 50331648
master_evicted_key_count 3
master_batch_put_start_items_total 20
master_batch_put_start_failed_items_total 2
master_batch_put_end_items_total 12
master_batch_put_revoke_items_total 1
master_put_start_requests_total 4
master_put_end_requests_total 4
"""


def test_the_master_listens_on_loopback_alone_at_the_ports_that_it_was_given() -> None:
    command = master_command("mooncake_master", PORTS, lease_s=0.5)
    assert command[0] == "mooncake_master"
    flags = dict(one.removeprefix("--").split("=") for one in command[1:])
    assert flags["default_kv_lease_ttl"] == "500"
    assert [flags[f"{name}_port"] for name in ("rpc", "http_metadata_server", "metrics")] == ["5001", "5002", "5003"]
    hosts = {flags[name] for name in ("rpc_address", "http_metadata_server_host", "metrics_host")}
    assert hosts == {"127.0.0.1"}
    assert master_ready_url(PORTS) == "http://127.0.0.1:5003/health"
    assert set(MASTER_PORTS) == PORTS.keys()


def test_an_engine_lends_the_bytes_that_were_asked_and_finds_the_master() -> None:
    config = json.loads(client_config(PORTS, 3 * 2**30))
    assert config["global_segment_size"] == 3_221_225_472
    assert config["master_server_address"] == "127.0.0.1:5001"
    assert config["metadata_server"] == "http://127.0.0.1:5002/metadata"
    assert engine_env("/site/mooncake.json")["MOONCAKE_CONFIG_PATH"] == "/site/mooncake.json"


def test_two_engines_of_one_machine_look_up_through_sockets_of_their_own() -> None:
    failure = LoadFailure(policy="recompute")
    configs = [transfer_config(failure, "/o.json", lookup=port) for port in (7001, 7002)]
    assert [one["kv_load_failure_policy"] for one in configs] == ["recompute", "recompute"]
    extras = [one["kv_connector_extra_config"] for one in configs]
    assert [one["lookup_rpc_port"] for one in extras] == [7001, 7002]
    assert extras[0][ORDERS_KEY] == "/o.json"


def test_the_names_of_blocks_are_those_that_the_engine_gives_them() -> None:
    # 70 tokens are two whole blocks of 32; what is left has no name
    assert block_hashes(PROMPT, 32) == HASHES


@given(st.lists(st.integers(0, 511), min_size=8, max_size=60), st.integers(0, 7))
def test_a_name_stands_for_all_that_comes_before_it(tokens: list[int], changed: int) -> None:
    names = block_hashes(tuple(tokens), 4)
    assert len(names) == len(tokens) // 4
    other = [token + (place == changed) for place, token in enumerate(tokens)]
    # a change in one of the first two blocks changes its own name and all later ones
    same = [a == b for a, b in zip(names, block_hashes(tuple(other), 4), strict=True)]
    assert same == [number < changed // 4 for number in range(len(names))]


def test_writes_that_have_begun_and_not_ended_are_in_flight() -> None:
    # 20 + 4 begun; 2 refused, 12 + 4 ended, 1 taken back
    assert saves_in_flight(METRICS) == 5


def test_the_masters_counts_have_neutral_names_and_what_it_does_not_show_is_absent() -> None:
    assert read_counters(METRICS) == {"objects": 12.0, "memory_used_bytes": 50_331_648.0, "evicted_objects": 3.0}


class Pages(BaseHTTPRequestHandler):
    """What the master shows."""

    def do_GET(self) -> None:
        page = {"/get_all_keys": "a\nb\nc\n", "/metrics": METRICS}.get(self.path)
        self.send_response(404 if page is None else 200)
        self.end_headers()
        self.wfile.write((page if page is not None else "no such page").encode())

    def log_message(self, *said: object) -> None:
        """Say nothing."""


@pytest.fixture
def ports() -> Iterator[dict[str, int]]:
    """A master that shows pages and no more."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield PORTS | {"metrics": server.server_address[1]}
        server.shutdown()
        thread.join()


def test_objects_are_counted_by_their_names(ports: dict[str, int]) -> None:
    with closing(MooncakeStore(ports, "/models/tiny", 32)) as store:
        assert store.objects_in_memory() == 3
        assert store.saves_in_flight() == 5
        assert store.counters()["objects"] == 12


def test_a_master_that_is_gone_is_an_error_with_the_products_name() -> None:
    with closing(MooncakeStore(PORTS | {"metrics": 1}, "/models/tiny", 32)) as store:
        with pytest.raises(RunError, match="GET /metrics") as refused:
            store.saves_in_flight()
        assert refused.value.where == "mooncake_store"


class Native:
    """A stand-in for the product's own client: one name is not there, and one is kept."""

    calls: list[Any]
    setup_answers = 0

    def setup(self, *given: Any) -> int:
        self.calls.append(("setup", given))
        return self.setup_answers

    def batch_remove(self, keys: Sequence[str], force: bool) -> list[int]:
        self.calls.append(("batch_remove", tuple(keys), force))
        return [0, -704, -706][: len(keys)]

    def remove_all(self, force: bool) -> int:
        self.calls.append(("remove_all", force))
        return 5

    def close(self) -> int:
        self.calls.append(("close",))
        return 0


@pytest.fixture
def native(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The stand-in in the product's place; what was called is in its `calls`."""
    made: Any = type("Made", (Native,), {"calls": []})
    module: Any = ModuleType("mooncake.store")
    module.MooncakeDistributedStore = made
    monkeypatch.setitem(sys.modules, "mooncake", ModuleType("mooncake"))
    monkeypatch.setitem(sys.modules, "mooncake.store", module)
    return made


def test_of_a_prompt_its_own_objects_are_deleted_though_they_are_leased(native: Any) -> None:
    with closing(MooncakeStore(PORTS, "/models/tiny/", 20)) as store:
        assert store.delete_prompt(PROMPT) == Deleted(deleted=1, skipped=1)
    setup, removed, closed = native.calls
    names = [f"tiny@tp_rank:0@pcp0@dcp0@pp_rank:0@group:0@{name}" for name in block_hashes(PROMPT, 20)]
    assert removed == ("batch_remove", tuple(names), True)
    assert setup[1][2] == 0, "the client lends no memory"
    assert closed == ("close",)


def test_clearing_removes_all_objects_though_they_are_leased(native: Any) -> None:
    with closing(MooncakeStore(PORTS, "/models/tiny", 32)) as store:
        store.clear_memory()
    assert native.calls[1:] == [("remove_all", True), ("close",)]


def test_a_master_that_lets_no_client_in_is_an_error(native: Any) -> None:
    native.setup_answers = -1
    with closing(MooncakeStore(PORTS, "/models/tiny", 32)) as store, pytest.raises(RunError, match="answered -1"):
        store.clear_memory()
