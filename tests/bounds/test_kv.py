"""Bytes of KV, by hand for published models."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.bounds.kv import KvShape, blocks_of, kv_bytes, kv_bytes_in_blocks, kv_bytes_per_token
from testbed.errors import BoundError

LLAMA_8B = KvShape(num_layers=32, num_kv_heads=8, head_dim=128, dtype_bytes=2)
LLAMA_70B = KvShape(num_layers=80, num_kv_heads=8, head_dim=128, dtype_bytes=2)
QWEN_8B = KvShape(num_layers=36, num_kv_heads=8, head_dim=128, dtype_bytes=2)
SMOL = KvShape(num_layers=30, num_kv_heads=3, head_dim=64, dtype_bytes=2)
QWEN_235B = KvShape(num_layers=94, num_kv_heads=4, head_dim=128, dtype_bytes=2)
LLAMA_8B_FP8 = KvShape(num_layers=32, num_kv_heads=8, head_dim=128, dtype_bytes=1)
SHAPES = st.builds(
    KvShape, num_layers=st.integers(1, 100), num_kv_heads=st.integers(1, 64), head_dim=st.integers(1, 256),
    dtype_bytes=st.sampled_from([1, 2, 4]),
)


@pytest.mark.parametrize(
    ("shape", "size"),
    [
        (LLAMA_8B, 131_072),  # 2 (K, V) x 32 x 8 x 128 x 2
        (LLAMA_70B, 327_680),  # 2 x 80 x 8 x 128 x 2
        (QWEN_8B, 147_456),  # 2 x 36 x 8 x 128 x 2
        (SMOL, 23_040),  # 2 x 30 x 3 x 64 x 2
        (QWEN_235B, 192_512),  # 2 x 94 x 4 x 128 x 2, each head once
        (LLAMA_8B_FP8, 65_536),  # half of 16 bits; scales are not counted
    ],
)
def test_kv_bytes_of_a_token(shape: KvShape, size: int) -> None:
    assert kv_bytes_per_token(shape) == size


def test_kv_of_a_4096_token_prompt_is_512_mib() -> None:
    # 131,072 bytes a token x 4,096 = 536,870,912
    assert kv_bytes(LLAMA_8B, 4096) == 536_870_912


def test_128k_tokens_of_llama_70b_are_40_gib_not_40_gb() -> None:
    # 327,680 x 131,072 = 42,949,672,960 = 40 x 2^30
    assert kv_bytes(LLAMA_70B, 131_072) == 40 * 2**30


def test_one_block_of_llama_8b() -> None:
    # 16 x 131,072 = 2,097,152; 512 x 131,072 = 64 MiB
    assert kv_bytes_in_blocks(LLAMA_8B, 1, 16) == 2_097_152
    assert kv_bytes_in_blocks(LLAMA_8B, 1, 512) == 64 * 2**20


def test_a_prompt_is_stored_in_whole_blocks() -> None:
    # ceil(1000 / 16) = 63 blocks = 1,008 tokens x 147,456 = 148,635,648
    assert kv_bytes_in_blocks(QWEN_8B, 1000, 16) == 148_635_648


def test_4097_tokens_take_257_blocks_of_16() -> None:
    # 4,097 / 16 = 256.06
    assert blocks_of(4097, 16) == 257


@given(SHAPES, st.integers(0, 10**6), st.integers(0, 10**6))
def test_kv_bytes_are_linear_in_tokens(shape: KvShape, some: int, more: int) -> None:
    assert kv_bytes(shape, some) + kv_bytes(shape, more) == kv_bytes(shape, some + more)


@given(SHAPES, st.integers(0, 10**5), st.integers(1, 1024))
def test_whole_blocks_are_never_smaller_and_less_than_a_block_larger(shape: KvShape, tokens: int, block: int) -> None:
    exact, whole = kv_bytes(shape, tokens), kv_bytes_in_blocks(shape, tokens, block)
    assert exact <= whole < exact + block * kv_bytes_per_token(shape)


def test_impossible_numbers_are_refused() -> None:
    with pytest.raises(BoundError, match="num_tokens is -1"):
        kv_bytes(SMOL, -1)
    with pytest.raises(BoundError, match="num_kv_heads is 0"):
        KvShape(num_layers=1, num_kv_heads=0, head_dim=1, dtype_bytes=2)
    with pytest.raises(BoundError, match="blocks of 0"):
        blocks_of(1, 0)
