"""LMCache as text: its commands, its counters, and the names of its objects."""

from testbed.tiers.lmcache import LmcachePorts, chunk_hashes, read_counters, server_command

PORTS = LmcachePorts(1, 2, 3)


def test_the_names_of_a_prompts_chunks_chain_over_its_prefix() -> None:
    prompt, other_end, other_start = (1, 2, 3, 4, 5, 6, 7, 8, 9), (1, 2, 3, 4, 9, 9, 9, 9), (9, 2, 3, 4, 5, 6, 7, 8)
    names = chunk_hashes([prompt, other_end, other_start], 4)
    one, two = names[prompt]
    assert names[other_end][0] == one
    assert names[other_start][1] != two
    assert len(bytes.fromhex(one)) == 32


def test_the_memory_of_the_server_is_in_gibibytes_to_the_byte() -> None:
    command = server_command("lmcache", 1_610_612_736, PORTS, pool="p", chunk_tokens=64, redis=None)
    assert command[command.index("--l1-size-gb") + 1] == "1.5"
    assert "--l2-adapter" not in command


def test_counters_are_read_under_neutral_names_and_added_up() -> None:
    page = (
        "# HELP something\n"
        'lmcache_mp_lookup_hit_l1_tokens_total{cache_salt="",model_name="m"} 3072.0\n'
        'lmcache_mp_lookup_hit_l1_tokens_total{cache_salt="x",model_name="m"} 28.0\n'
        'lmcache_mp_l1_memory_usage_bytes{backend="dram"} 7.077888e+07\n'
        "python_info 1.0\n"
    )
    assert read_counters(page) == {"hit_memory_tokens": 3100.0, "memory_used_bytes": 70_778_880.0}
