"""Several engines as processes: their names, ports, settings, what they wait for, and the router's file."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from testbed.deploy.plan_check import check_plan
from testbed.engines.api import wanted_settings
from testbed.errors import DeployError
from testbed.plan.component import Component
from testbed.plan.site import Deployable, FilesAccess, LmcacheAccess, StoreAccess
from testbed.plan.standing import Standing
from testbed.spec.routing import RouterConfig, read_router_config
from tests.plan.sites import MACHINE, planned


def parts(found: Standing) -> dict[str, Component]:
    return {one.name: one for one in found.deployable.plan.components}


def routing(found: Deployable) -> RouterConfig:
    router = next(one for one in found.plan.components if one.name == "router")
    [(path, text)] = router.files.items()
    assert path == router.command[-1]
    return read_router_config(text.encode(), path)


def transfer(found: Standing, number: int) -> Any:
    return found.deployable.engines[number].settings.transfer


def test_one_engine_is_asked_itself_and_several_behind_a_router() -> None:
    alone = planned("chunked_prefill").deployable
    assert alone.client_url == alone.engines[0].url == "http://127.0.0.1:18100"
    several = planned("colocated_replicas").deployable
    assert several.client_url == several.router_url
    assert several.client_url not in {part.url for part in several.engines}


def test_engines_are_named_by_their_role_and_counted() -> None:
    found = planned("pd_nixl", engines__0__replicas=2, engines__1__replicas=3).deployable
    assert [(part.name, part.role) for part in found.engines] == [
        ("prefill-0", "prefill"), ("prefill-1", "prefill"), ("decode-0", "decode"), ("decode-1", "decode"),
        ("decode-2", "decode"),
    ]
    assert [part.name for part in planned("colocated_replicas").deployable.engines] == ["engine-0", "engine-1"]


@pytest.mark.parametrize("name", ["colocated_replicas", "pd", "pd_nixl", "pd_tier", "pd_multi", "colocated_mooncake"])
def test_no_port_is_used_twice_and_the_order_can_be_kept(name: str) -> None:
    found = planned(name)
    check_plan(found.deployable.plan)
    ports = [port for one in found.deployable.plan.components for port in one.ports]
    assert len(ports) == len(set(ports))


def test_ports_that_are_busy_are_passed_over() -> None:
    busy = replace(MACHINE, busy_ports=frozenset({18103}))
    # five ports in a row: two engines, two for saying who they are, a router
    found = planned("pd", machine=busy)
    assert sorted(port for one in parts(found).values() for port in one.ports) == list(range(18120, 18125))


def test_engines_wait_for_the_tier_and_nobody_for_the_router() -> None:
    needs = {name: one.needs for name, one in parts(planned("pd_tier")).items()}
    assert needs == {"lmcache": (), "prefill-0": ("lmcache",), "decode-0": ("lmcache",), "router": ()}
    assert {one.needs for one in parts(planned("pd")).values()} == {()}


def test_the_router_gets_each_engine_with_its_role_and_the_way_between_them() -> None:
    config = routing(planned("pd", engines__0__replicas=2).deployable)
    assert [(one.name, one.role) for one in config.engines] == [
        ("prefill-0", "prefill"), ("prefill-1", "prefill"), ("decode-0", "decode"),
    ]
    assert (config.transfer, config.policy, config.max_in_flight) == ("mooncake_p2p", "least_loaded", 256)
    assert [one.bootstrap_url for one in config.engines] == ["http://127.0.0.1:18103", "http://127.0.0.1:18104", None]
    assert routing(planned("pd_tier").deployable).transfer == "tier"
    replicas = routing(planned("colocated_replicas").deployable)
    assert (replicas.transfer, replicas.policy) == (None, "round_robin")
    assert replicas.journal == "sites/colocated_replicas/events"


def test_a_router_that_is_written_stands_before_a_single_engine_too() -> None:
    found = planned("chunked_prefill", router={"policy": "round_robin"}).deployable
    assert [one.name for one in found.plan.components] == ["engine-0", "router"]
    assert found.client_url == "http://127.0.0.1:18101"


def test_each_side_of_a_transfer_gets_its_role_and_the_failure_policy_at_the_top() -> None:
    for name, connector in (("pd", "ProbedMooncakeConnector"), ("pd_nixl", "ProbedNixlConnector")):
        found = planned(name)
        assert [transfer(found, number)["kv_role"] for number in (0, 1)] == ["kv_producer", "kv_consumer"]
        assert {transfer(found, number)["kv_connector"] for number in (0, 1)} == {connector}
        assert {transfer(found, number)["kv_load_failure_policy"] for number in (0, 1)} == {"recompute"}


def test_where_the_tier_is_the_way_both_sides_get_its_connector_and_one_server() -> None:
    found = planned("pd_tier")
    assert transfer(found, 0) == transfer(found, 1)
    assert transfer(found, 0)["kv_connector"] == "ProbedLMCacheMPConnector"
    assert isinstance(found.deployable.tier, LmcacheAccess)
    assert len({part.settings.model_path for part in found.deployable.engines}) == 1, "else their keys would differ"


def test_a_transfer_beside_a_tier_is_the_first_of_two_and_the_policy_stands_above_both() -> None:
    found = planned("pd_multi")
    config = transfer(found, 1)
    parts_of = [one["kv_connector"] for one in config["kv_connector_extra_config"]["connectors"]]
    assert (config["kv_connector"], parts_of) == ("ProbedMultiConnector", ["NixlConnector", "LMCacheMPConnector"])
    assert config["kv_load_failure_policy"] == "recompute"
    assert routing(found.deployable).transfer == "nixl"
    assert found.deployable.site.topology.load_deadline_s == 30.0


def test_files_need_no_server_and_lie_in_the_deployments_folder() -> None:
    found = planned("colocated", tier={"kind": "files"})
    assert list(parts(found)) == ["engine-0"]
    assert found.deployable.tier == FilesAccess("sites/colocated/kv", 64)
    assert transfer(found, 0)["kv_connector_extra_config"]["shared_storage_path"] == "sites/colocated/kv"


def test_a_wait_for_a_prefill_engine_that_died_ends_at_the_deadline_of_a_load() -> None:
    # decode waits for 60 s more than it is told, and prefill for half of the 30 s
    limits = {name: one.env["VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT"] for name, one in parts(planned("pd")).items()
              if name != "router"}
    assert limits == {"prefill-0": "15", "decode-0": "-30"}


def test_engines_that_share_the_cores_are_bound_to_none_and_an_engine_alone_gets_them_all() -> None:
    shared = parts(planned("colocated_replicas"))["engine-1"].env
    # two cores for two engines: one thread each
    assert (shared["OMP_NUM_THREADS"], shared["VLLM_CPU_OMP_THREADS_BIND"]) == ("1", "nobind")
    many = parts(planned("pd", machine=replace(MACHINE, cores=9)))["decode-0"].env
    # nine cores for two engines: four each
    assert many["OMP_NUM_THREADS"] == "4"
    assert "OMP_NUM_THREADS" not in parts(planned("colocated"))["engine-0"].env


def test_the_users_variables_win() -> None:
    env = parts(planned("pd", engines__1__env={"OMP_NUM_THREADS": "2"}))["decode-0"].env
    assert env["OMP_NUM_THREADS"] == "2"


def test_engines_that_start_together_get_the_more_time_the_fewer_cores_there_are() -> None:
    # one engine on two cores: 240 s; two take turns, 480 s; on four cores they do not
    limits = [
        parts(planned("colocated"))["engine-0"].ready.limit_s,
        parts(planned("pd"))["decode-0"].ready.limit_s,
        parts(planned("pd", machine=replace(MACHINE, cores=4)))["decode-0"].ready.limit_s,
    ]
    assert limits == [240, 480, 240]


def test_each_role_has_its_own_flags() -> None:
    found = planned("pd", engines__1__args={"max_num_seqs": 8})
    commands = {name: " ".join(one.command) for name, one in parts(found).items()}
    assert "--max-num-batched-tokens 8192" in commands["prefill-0"]
    assert "--max-num-batched-tokens 2048" in commands["decode-0"]
    assert "--max-num-seqs 8" in commands["decode-0"]
    assert "--max-num-seqs" not in commands["prefill-0"]


def test_what_an_engine_must_say_of_itself_is_its_own_role_and_split() -> None:
    wanted = [wanted_settings(part.settings) for part in planned("pd").deployable.engines]
    assert [one["connector_role"] for one in wanted] == ["kv_producer", "kv_consumer"]
    assert {one["tensor_parallel"] for one in wanted} == {1}
    assert [one["budget"] for one in wanted] == [8192, 2048]


def test_a_mooncake_store_is_a_master_and_a_file_that_engines_are_pointed_to() -> None:
    found = planned("colocated_mooncake", engines__0__replicas=2)
    master = parts(found)["mooncake_store"]
    [(path, text)] = master.files.items()
    # 1 GiB = 2^30 bytes, of each engine
    assert msgspec.json.decode(text)["global_segment_size"] == 1_073_741_824
    assert {parts(found)[f"engine-{number}"].env["MOONCAKE_CONFIG_PATH"] for number in (0, 1)} == {path}
    assert parts(found)["engine-0"].needs == ("mooncake_store",)
    assert found.deployable.tier == StoreAccess({"rpc": 18102, "metadata": 18103, "metrics": 18104}, 64)
    lookups = [transfer(found, number)["kv_connector_extra_config"]["lookup_rpc_port"] for number in (0, 1)]
    assert lookups == [18100, 18101], "a socket is named by it"
    with pytest.raises(DeployError, match="no mooncake_master"):
        planned("colocated_mooncake", machine=replace(MACHINE, mooncake_master=None))


def test_the_memory_of_a_deployment_is_that_of_all_its_processes() -> None:
    # two engines of 3,300,000,000 B and 128 blocks x 64 tokens x 46,080 B = 377,487,360 B each; Ray 0.9 GB, router
    # 0.1 GB, LMCache 0.7 GB and 4 GiB: 0.838 + 6.147 + 0.703 + 0.093 + 0.652 + 4 = 12.43 GiB
    assert planned("pd_tier").sums[1] == (
        "memory: Ray 0.84 + 2 engines 6.15 + KV of 2 engines 0.70 + router 0.09 + LMCache 0.65 + tier memory 4.00"
        " = 12.43 GiB of 20.00 GiB available"
    )
    # one engine: 0.838 + 3.073 + 0.352 + 0.652 + 4 + 2 = 10.92 GiB
    assert planned("colocated").sums[1].endswith("tier memory 4.00 + backing 2.00 = 10.92 GiB of 20.00 GiB available")
    # each of two engines lends 1 GiB and has a buffer of 64 MiB: 0.838 + 6.147 + 0.703 + 0.093 + 0.093 + 2 + 0.125
    assert planned("colocated_mooncake", engines__0__replicas=2).sums[1].endswith(
        "Mooncake master 0.09 + tier memory 2.00 + buffers 0.12 = 10.00 GiB of 20.00 GiB available"
    )


def test_engines_that_do_not_fit_together_are_refused_with_the_sum() -> None:
    with pytest.raises(DeployError, match=r"3 engines 9\.22 \+ KV of 3 engines 1\.05 .* of 12\.00 GiB"):
        planned("colocated_replicas", engines__0__replicas=3, machine=replace(MACHINE, available_bytes=12 * 2**30))
