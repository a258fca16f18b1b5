"""What engines on GPUs have room for, with sums done by hand, and where they go."""

from typing import Any

import pytest

from testbed.errors import DeployError, SpecError
from testbed.plan.facts import GpuFacts
from testbed.plan.gpus import gpu_memory, gpu_share
from testbed.plan.standing import Machines, gpu_facts, shape_facts
from testbed.spec.load import load
from testbed.spec.machine import Hardware
from tests.plan.sites import ROOT, model_file, planned


def gpus(name: str, machines: Machines | None = None) -> GpuFacts:
    profile = load((ROOT / f"configs/hardware/{name}.yaml").read_text(), Hardware, where=name).value
    found = gpu_facts(profile, Machines() if machines is None else machines)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("model", "kv_bytes", "params"),
    [
        # 2 (K, V) x 32 layers x 8 heads x 128 x 2 bytes
        ("llama-3.1-8b", 131_072, 8_030_261_248),
        # 2 x 80 x 8 x 128 x 2
        ("llama-3.3-70b", 327_680, 70_553_706_496),
        # 2 x 36 x 8 x 128 x 2
        ("qwen3-8b", 147_456, 8_190_735_360),
    ],
)
def test_a_models_file_gives_its_kv_a_token_and_its_weights(model: str, kv_bytes: int, params: int) -> None:
    facts = shape_facts(model_file(model))
    assert (facts.kv_bytes_per_token, facts.weights_bytes) == (kv_bytes, 2 * params)


def test_the_parameters_of_llama_8b_are_those_of_its_layers() -> None:
    # Embedding and head: 2 x 128,256 x 4,096. A layer: q and o 2 x 4,096^2, k and v 2 x 4,096 x 1,024,
    # MLP 3 x 4,096 x 14,336, two norms of 4,096. Last a norm of 4,096.
    layer = 2 * 4096**2 + 2 * 4096 * 1024 + 3 * 4096 * 14_336 + 2 * 4096
    assert shape_facts(model_file("llama-3.1-8b")).weights_bytes == 2 * (2 * 128_256 * 4096 + 32 * layer + 4096)


def test_on_one_24_gb_gpu_an_8b_model_leaves_room_for_some_tokens() -> None:
    memory = gpu_memory(shape_facts(model_file("llama-3.1-8b")), gpus("rtx4090"), ranks=1, engines=1)
    # 0.9 x 24,000,000,000 = 21,600,000,000; - weights 16,060,522,496 - reserve 2 GiB 2,147,483,648
    # = 3,391,993,856 bytes; / 131,072 = 25,878.86 tokens
    assert memory.kv_bytes == 3_391_993_856
    assert memory.tokens == 25_878


def test_two_engines_that_share_one_h100_have_half_of_its_share_each() -> None:
    facts = gpus("h100", Machines(single=True))
    memory = gpu_memory(shape_facts(model_file("llama-3.1-8b")), facts, ranks=1, engines=2)
    # 0.9 / 2 = 0.45; x 80,000,000,000 = 36,000,000,000; - 16,060,522,496 - 4 GiB 4,294,967,296 = 15,644,510,208;
    # / 131,072 = 119,358.1 tokens
    assert memory.share == 0.45
    assert (memory.kv_bytes, memory.tokens) == (15_644_510_208, 119_358)
    # 0.9 / 4 = 0.225: to a hundredth, and never above
    assert gpu_share(facts, 4) == 0.22


def test_a_model_split_over_eight_gpus_has_an_eighth_of_weights_and_heads_on_each() -> None:
    facts = gpus("h100", Machines(nodes=2))
    memory = gpu_memory(shape_facts(model_file("llama-3.3-70b")), facts, ranks=8, engines=2)
    # weights 141,107,412,992 / 8 = 17,638,426,624; KV 327,680 / 8 = 40,960 a token;
    # 72,000,000,000 - 17,638,426,624 - 4,294,967,296 = 50,066,606,080; / 40,960 = 1,222,329.2
    assert (memory.weights_bytes, memory.kv_bytes_per_token) == (17_638_426_624, 40_960)
    assert (memory.kv_bytes, memory.tokens) == (50_066_606_080, 1_222_329)


def test_with_more_ranks_than_kv_heads_each_rank_holds_a_whole_head() -> None:
    # 8 heads over 16 ranks: one head each, 131,072 / 8 = 16,384 bytes a token
    memory = gpu_memory(shape_facts(model_file("llama-3.1-8b")), gpus("h100"), ranks=16, engines=1)
    assert memory.kv_bytes_per_token == 16_384


def test_two_8b_engines_on_one_24_gb_gpu_are_refused_with_the_sum() -> None:
    # 0.45 x 22.35 GiB = 10.06 GiB; less 14.96 and 2.00 = -6.90 GiB
    with pytest.raises(DeployError, match=r"x 0\.45 = 10\.06 GiB - weights 14\.96 - reserve 2\.00 = -6\.90 GiB for KV"):
        planned("pd", "l4", machines=Machines(single=True), model="llama-3.1-8b")


def test_room_for_less_than_one_request_is_refused() -> None:
    # 70B over 2 GPUs of 80 GB: 72.0 - 70.55 - 4.29 GB is below 0
    with pytest.raises(DeployError, match="a request of 8192 tokens"):
        planned("colocated", "h100", model="llama-3.3-70b", engines__0__gpus=2, engines__0__tensor_parallel=2)


def test_engines_go_to_the_first_machine_with_room_and_are_bound_to_its_address() -> None:
    split: dict[str, Any] = {"engines__0__gpus": 8, "engines__1__gpus": 8}
    found = planned("pd", "h100", machines=Machines(nodes=2), model="qwen3-8b", **split).deployable
    assert [part.url for part in found.engines] == ["http://node-0:18100", "http://node-1:18101"]
    components = {one.name: one for one in found.plan.components}
    assert {name: one.node for name, one in components.items()} == {
        "prefill-0": "node-0", "decode-0": "node-1", "router": "127.0.0.1",
    }
    assert components["decode-0"].env["VLLM_HOST_IP"] == "node-1"
    assert found.engines[0].peer_url == "http://node-0:18102"
    near = planned("pd", "h100", machines=Machines(nodes=2), model="qwen3-8b").deployable
    assert {part.url.rpartition(":")[0] for part in near.engines} == {"http://node-0"}


def test_more_gpus_than_there_are_is_refused_with_what_is_asked() -> None:
    said = r"no machine has 8 GPUs left for decode-0: prefill-0 1 \+ decode-0 8 = 9 asked; there are 1 x 8 h100"
    with pytest.raises(DeployError, match=said):
        planned("pd", "h100", model="qwen3-8b", engines__1__gpus=8)


def test_a_tier_in_the_memory_of_one_machine_is_not_planned_over_two() -> None:
    with pytest.raises(DeployError, match="this plan has 2 machines"):
        planned(
            "colocated_replicas", "h100", machines=Machines(nodes=2), model="qwen3-8b", engines__0__gpus=8,
        )


def test_engines_that_share_a_gpu_start_one_after_another() -> None:
    # Each measures what memory is free; two at once would count the same bytes.
    found = planned("pd", "h100", machines=Machines(single=True), model="qwen3-8b").deployable
    assert {one.name: one.needs for one in found.plan.components}["decode-0"] == ("prefill-0",)
    assert [one.gpus for one in found.plan.components] == [0.45, 0.45, 0.0]


def test_an_engine_split_over_gpus_can_not_share_one_and_a_processor_can_not_split() -> None:
    with pytest.raises(DeployError, match="can't share one"):
        planned(
            "colocated", "h100", machines=Machines(single=True), model="qwen3-8b", engines__0__gpus=2,
            engines__0__tensor_parallel=2,
        )
    with pytest.raises(DeployError, match="engine-0 would be split over GPUs"):
        planned("colocated", engines__0__gpus=2, engines__0__tensor_parallel=2)


def test_a_profile_without_gpus_takes_no_number_of_them() -> None:
    with pytest.raises(SpecError, match="hardware cpu has no GPUs"):
        planned("pd", machines=Machines(nodes=2))
    assert planned("pd", machines=Machines(single=True)) == planned("pd"), "it is one machine in any case"


def test_gpu_flags_stand_in_the_command_and_those_of_a_processor_do_not() -> None:
    split: dict[str, Any] = {"engines__0__gpus": 2, "engines__0__tensor_parallel": 2}
    found = planned("colocated", "h100", model="llama-3.1-8b", **split)
    command = " ".join(found.deployable.plan.components[-1].command)
    assert "--tensor-parallel-size 2 --gpu-memory-utilization 0.9" in command
    assert "--enforce-eager" not in command
    assert "--num-gpu-blocks-override" not in command
    assert "VLLM_CPU_KVCACHE_SPACE" not in found.deployable.plan.components[-1].env
