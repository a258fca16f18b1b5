"""Bytes of KV: per token, per prompt, and in whole blocks."""

from dataclasses import dataclass

from testbed.errors import BoundError


@dataclass(frozen=True)
class KvShape:
    """What one token leaves in the KV of a model with full attention (MHA or GQA).

    Units: `dtype_bytes` is per element, 2 for 16 bits. `num_kv_heads` counts K/V heads, never query heads.
    """

    num_layers: int
    num_kv_heads: int
    head_dim: int
    dtype_bytes: int

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value <= 0:
                raise BoundError(f"{name} is {value}; it must be above 0")


def kv_bytes_per_token(shape: KvShape) -> int:
    """Bytes of K and V of one token on all layers, each head counted once."""
    return 2 * shape.num_layers * shape.num_kv_heads * shape.head_dim * shape.dtype_bytes


def kv_bytes(shape: KvShape, num_tokens: int) -> int:
    """Bytes of the KV of `num_tokens` on all layers of one model.

    Shapes: K and V are each [num_layers, num_tokens, num_kv_heads, head_dim].
    Raises: BoundError if `num_tokens` is negative.
    """
    if num_tokens < 0:
        raise BoundError(f"num_tokens is {num_tokens}; it must not be negative")
    return num_tokens * kv_bytes_per_token(shape)


def blocks_of(num_tokens: int, block_tokens: int) -> int:
    """Blocks that `num_tokens` take, the last one perhaps not full.

    Raises: BoundError for a negative number of tokens or a block of none.
    """
    if num_tokens < 0 or block_tokens <= 0:
        raise BoundError(f"{num_tokens} tokens in blocks of {block_tokens}; want tokens >= 0 and blocks > 0")
    return -(-num_tokens // block_tokens)


def kv_bytes_in_blocks(shape: KvShape, num_tokens: int, block_tokens: int) -> int:
    """Bytes of the whole blocks that hold `num_tokens`: what a tier that moves blocks has to move."""
    return kv_bytes(shape, blocks_of(num_tokens, block_tokens) * block_tokens)
