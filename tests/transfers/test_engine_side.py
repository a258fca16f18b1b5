"""What each transfer has its engines started with."""

from typing import Any, Literal

import pytest

from testbed.journal.events import ORDERS_KEY, PATH_KEY
from testbed.spec.topology import LoadFailure
from testbed.tiers import lmcache
from testbed.transfers import mooncake_p2p, nixl, tier
from testbed.transfers.combined import combined_config

FAIL = LoadFailure(policy="fail", attempts=1)
KINDS: dict[str, Any] = {"mooncake_p2p": mooncake_p2p, "nixl": nixl}


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize(("role", "kv_role"), [("prefill", "kv_producer"), ("decode", "kv_consumer")])
def test_each_role_is_one_end_of_the_transfer_with_the_policy_where_the_engine_reads_it(
    kind: str, role: Literal["prefill", "decode"], kv_role: str
) -> None:
    config = KINDS[kind].connector_config(role, FAIL, "/site/orders.json")
    assert (config["kv_role"], config["kv_load_failure_policy"]) == (kv_role, "fail")
    assert config["kv_connector"] == f"Probed{KINDS[kind].CONNECTOR}"
    extra = config["kv_connector_extra_config"]
    assert (extra[ORDERS_KEY], extra[PATH_KEY]) == ("/site/orders.json", "loopback_tcp")


def test_mooncake_goes_by_the_way_that_the_machine_has() -> None:
    config = mooncake_p2p.connector_config("prefill", FAIL, "o", protocol="rdma")
    assert config["kv_connector_extra_config"]["mooncake_protocol"] == "rdma"
    assert config["kv_connector_extra_config"][PATH_KEY] == "nic"


def test_blocks_on_a_gpu_are_pulled_from_gpu_to_gpu() -> None:
    config = nixl.connector_config("decode", FAIL, "o", device="cuda")
    assert (config["kv_buffer_device"], config["kv_connector_extra_config"][PATH_KEY]) == ("cuda", "gpu_link")
    assert "UCX_TLS" not in nixl.engine_env({"side_channel": 1}, device="cuda")


def test_the_router_asks_the_bootstrap_port_that_the_engine_was_given() -> None:
    assert mooncake_p2p.PEER_PORT in mooncake_p2p.PORTS
    assert mooncake_p2p.engine_env({"bootstrap": 9001}) == {"VLLM_MOONCAKE_BOOTSTRAP_PORT": "9001"}


@pytest.mark.parametrize(
    ("give_up_s", "decode", "prefill"), [(30.0, "-30", "15"), (90.0, "30", "45"), (2.5, "-57", "2")]
)
def test_prefill_gives_up_well_before_decode_does(give_up_s: float, decode: str, prefill: str) -> None:
    # decode waits 60 s more than it is told, prefill as long as it is told; both in whole seconds
    roles: tuple[Literal["decode", "prefill"], ...] = ("decode", "prefill")
    env = {role: mooncake_p2p.engine_env({"bootstrap": 1}, role, give_up_s) for role in roles}
    limits = {role: env[role]["VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT"] for role in roles}
    assert limits == {"decode": decode, "prefill": prefill}


def test_the_side_channel_of_nixl_is_on_loopback_at_a_port_of_its_own() -> None:
    env = nixl.engine_env({"side_channel": 9002})
    assert (env["VLLM_NIXL_SIDE_CHANNEL_HOST"], env["VLLM_NIXL_SIDE_CHANNEL_PORT"]) == ("127.0.0.1", "9002")
    assert env["UCX_TLS"] == "tcp,self", "with shared memory a pull that stalls holds up the engine"


def test_a_shared_tier_needs_nothing_of_its_own() -> None:
    assert (tier.PORTS, tier.PEER_PORT, tier.engine_env({})) == ((), None, {})


def test_a_transfer_with_a_tier_is_one_probe_around_both_plain_parts() -> None:
    first = nixl.connector_config("prefill", FAIL, "/o.json")
    second = lmcache.transfer_config(lmcache.LmcachePorts(5600, 9600, 9601), FAIL, "/o.json")
    config = combined_config(first, second, FAIL, "/o.json")
    assert (config["kv_connector"], config["kv_load_failure_policy"]) == ("ProbedMultiConnector", "fail")
    extra = config["kv_connector_extra_config"]
    assert extra[ORDERS_KEY] == "/o.json"
    parts = extra["connectors"]
    assert [one["kv_connector"] for one in parts] == ["NixlConnector", "LMCacheMPConnector"]
    assert [one["kv_role"] for one in parts] == ["kv_producer", "kv_both"]
    assert [one["kv_connector_extra_config"][PATH_KEY] for one in parts] == ["loopback_tcp", "shared_memory_copy"]
    assert not [one for one in parts if {"kv_connector_module_path", "kv_load_failure_policy"} & one.keys()]
