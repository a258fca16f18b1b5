"""Building models: once, whole or not at all, and what their folders say."""

import errno
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from testbed.engines.child import Talk
from testbed.engines.models import IDENTITY, ModelSource, build_model, read_identity, read_shape
from testbed.errors import DeployError, SpecError

FIXTURES = Path(__file__).parents[1] / "fixtures" / "models"
CONFIG = {
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 1, "hidden_size": 64, "vocab_size": 99,
    "max_position_embeddings": 256, "eos_token_id": [7, 8],
}


def quiet(text: str) -> None:
    """Nobody listens."""


def write_toy(folder: Path, cache: Path, talk: Talk) -> None:
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (folder / "model.safetensors").write_bytes(b"weights")


def toy(write: Callable[[Path, Path, Talk], None] = write_toy, build_bytes: int = 1) -> dict[str, ModelSource]:
    return {"toy": ModelSource("toy-1", "made for a test", build_bytes, write)}


def test_a_built_model_says_what_it_is(tmp_path: Path) -> None:
    folder = build_model("toy", tmp_path, quiet, toy())
    identity = read_identity(folder)
    assert folder == tmp_path / "models" / "toy-1"
    assert identity.weights_bytes == 7
    # printf weights | sha256sum
    assert identity.weights_sha256 == "9a129038d9a00aed0cf6a7ea059ca50a813449061ab87848cf1a13eafdf33b2c"
    assert identity.shape == read_shape(folder)


def test_the_second_call_builds_nothing(tmp_path: Path) -> None:
    built: list[Path] = []

    def write(folder: Path, cache: Path, talk: Talk) -> None:
        built.append(folder)
        write_toy(folder, cache, talk)

    first, second = (build_model("toy", tmp_path, quiet, toy(write)) for _ in range(2))
    assert first == second
    assert len(built) == 1


def test_an_unknown_name_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="'llama'; known are smollm2, tiny"):
        build_model("llama", tmp_path, quiet)


def test_a_build_that_breaks_off_leaves_nothing_and_the_next_one_works(tmp_path: Path) -> None:
    def interrupted(folder: Path, cache: Path, talk: Talk) -> None:
        write_toy(folder, cache, talk)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_model("toy", tmp_path, quiet, toy(interrupted))
    assert [path.name for path in (tmp_path / "models").iterdir()] == [".toy-1.lock"]
    assert read_identity(build_model("toy", tmp_path, quiet, toy())).name == "toy-1"


KILLED_BUILDER = """
import sys
from pathlib import Path
from testbed.engines.models import ModelSource, build_model

def write(folder, cache, talk):
    (folder / "model.safetensors").write_bytes(b"half")
    print("half", flush=True)
    sys.stdin.read()

build_model("toy", Path(sys.argv[1]), lambda text: None, {"toy": ModelSource("toy-1", "killed", 1, write)})
"""


def test_what_a_killed_builder_left_is_removed_and_never_used(tmp_path: Path) -> None:
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    with subprocess.Popen(
        [sys.executable, "-c", KILLED_BUILDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env,
    ) as builder:
        assert builder.stdout is not None
        assert builder.stdout.readline() == b"half\n"
        builder.send_signal(signal.SIGKILL)
    assert len(list((tmp_path / "models").glob(".toy-1.building-*"))) == 1
    folder = build_model("toy", tmp_path, quiet, toy())
    assert (folder / "model.safetensors").read_bytes() == b"weights"
    assert sorted(path.name for path in folder.parent.iterdir()) == [".toy-1.lock", "toy-1"]


@pytest.mark.parametrize("damage", ["no identity", "cut weights", "other recipe", "no weights"])
def test_a_folder_that_is_not_whole_is_built_again(tmp_path: Path, damage: str) -> None:
    folder = build_model("toy", tmp_path, quiet, toy())
    identity = folder / IDENTITY
    if damage == "no identity":
        identity.unlink()
    elif damage == "cut weights":
        (folder / "model.safetensors").write_bytes(b"weig")
    elif damage == "no weights":
        (folder / "model.safetensors").unlink()
    else:
        identity.write_text(identity.read_text().replace('"recipe": 1', '"recipe": 0'))
    assert build_model("toy", tmp_path, quiet, toy()) == folder
    assert (folder / "model.safetensors").read_bytes() == b"weights"
    assert read_identity(folder).recipe == 1


def test_two_builders_at_once_build_one_model(tmp_path: Path) -> None:
    built: list[Path] = []
    inside, go_on, waiting = threading.Event(), threading.Event(), threading.Event()

    def write(folder: Path, cache: Path, talk: Talk) -> None:
        built.append(folder)
        inside.set()
        assert go_on.wait(10)
        write_toy(folder, cache, talk)

    def heard(text: str) -> None:
        if text == "waiting, since another process is building model toy-1":
            waiting.set()

    builders = [threading.Thread(target=build_model, args=("toy", tmp_path, heard, toy(write))) for _ in range(2)]
    builders[0].start()
    assert inside.wait(10)
    builders[1].start()
    came_to_wait = waiting.wait(10)
    go_on.set()
    for builder in builders:
        builder.join(10)
    assert came_to_wait
    assert not any(builder.is_alive() for builder in builders)
    assert len(built) == 1


def test_too_little_disk_is_said_before_anything_is_fetched(tmp_path: Path) -> None:
    # 2^60 bytes are 2^40 MiB = 1,099,511,627,776 MiB
    with pytest.raises(DeployError, match="needs 1099511627776 MiB, free are") as refused:
        build_model("toy", tmp_path, quiet, toy(build_bytes=2**60))
    assert refused.value.hint is not None


def test_a_disk_that_fills_up_meanwhile_is_an_error_of_this_machine(tmp_path: Path) -> None:
    def full(folder: Path, cache: Path, talk: Talk) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(DeployError, match="No space left on device\nhint: it needs 3 MiB"):
        build_model("toy", tmp_path, quiet, toy(full, build_bytes=3 * 2**20))
    assert not (tmp_path / "models" / "toy-1").exists()


def test_a_cache_that_is_a_file_is_an_error_of_this_machine(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.write_text("not a folder")
    with pytest.raises(DeployError, match="check that the cache folder can be written"):
        build_model("toy", cache, quiet, toy())


def test_kv_bytes_of_smollm2() -> None:
    shape = read_shape(FIXTURES / "smollm2")
    # 2 (K, V) x 30 layers x 3 heads x 64 x 2 bytes = 23,040 a token
    assert shape.kv_bytes_per_token(2) == 23_040
    assert shape.eos_token_ids == (2,)


def test_shape_of_a_config_without_its_own_head_dim(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    shape = read_shape(tmp_path)
    # hidden 64 over 4 heads = 16; 2 x 2 layers x 1 head x 16 x 4 bytes = 256
    assert shape.head_dim == 16
    assert shape.kv_bytes_per_token(4) == 256
    assert shape.eos_token_ids == (7, 8)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"num_attention_heads": 4}'])
def test_a_config_of_another_kind_is_refused_by_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(DeployError, match=r"config\.json: is not the config of a known kind of model"):
        read_shape(tmp_path)


def test_a_folder_without_config_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(DeployError, match=r"it has no config\.json"):
        read_shape(tmp_path / "nowhere")
