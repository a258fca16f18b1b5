"""The tiny random model: the same bytes each time, of the shape that was asked for."""

import hashlib
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from testbed.engines.models import build_model, read_identity, read_shape
from testbed.engines.tiny import tiny_weights


def quiet(text: str) -> None:
    """Nobody listens."""


def digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def test_two_builds_have_the_same_bytes(tmp_path: Path) -> None:
    first = build_model("tiny", tmp_path / "a", quiet)
    second = build_model("tiny", tmp_path / "b", quiet)
    assert digests(first) == digests(second)
    assert read_identity(first).weights_sha256 == digests(first)["model.safetensors"]


def test_kv_of_a_token_is_8192_bytes(tmp_path: Path) -> None:
    # 2 (K, V) x 8 layers x 4 heads x 64 x 2 bytes = 8,192
    assert read_shape(build_model("tiny", tmp_path, quiet)).kv_bytes_per_token(2) == 8192


def test_another_seed_gives_other_weights() -> None:
    one, other = tiny_weights(1), tiny_weights(2)
    assert one.keys() == other.keys()
    assert not np.array_equal(one["lm_head.weight"], other["lm_head.weight"])


def test_its_tokenizer_reads_back_what_ids_say(tmp_path: Path) -> None:
    tokenizer = Tokenizer.from_file(str(build_model("tiny", tmp_path, quiet) / "tokenizer.json"))
    assert tokenizer.encode("t3 t511 </s>").ids == [3, 511, 2]
    assert tokenizer.encode("nonsense").ids == [0]
