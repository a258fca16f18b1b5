"""Build the models that engines serve, once, below a cache folder; and read what a model folder says of its shape.

A model is built in a temporary folder beside its place and renamed when whole, under a lock: a half-built one is never
used. `testbed.json`, written last, says what a built folder is.
"""

import errno
import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from testbed import clock
from testbed.engines.child import Talk
from testbed.engines.lock import held
from testbed.engines.smollm2 import SMOLLM2_BUILD_BYTES, SMOLLM2_SOURCE, write_smollm2
from testbed.engines.tiny import SEED, write_tiny
from testbed.errors import DeployError, SpecError

IDENTITY = "testbed.json"
_RECIPE = 1  # raised when a builder changes its bytes, so that older folders are built again


@dataclass(frozen=True)
class ModelShape:
    """What planning needs of a model; K and V of one layer are each [tokens, num_kv_heads, head_dim]."""

    num_layers: int
    num_kv_heads: int
    head_dim: int
    vocab_size: int
    max_positions: int
    eos_token_ids: tuple[int, ...]

    def kv_bytes_per_token(self, dtype_bytes: int) -> int:
        """Bytes of K and V on all layers, with `dtype_bytes` per element."""
        return 2 * self.num_layers * self.num_kv_heads * self.head_dim * dtype_bytes


@dataclass(frozen=True)
class ModelIdentity:
    """`testbed.json` of a built model."""

    name: str
    source: str
    recipe: int
    weights_sha256: str
    weights_bytes: int
    shape: ModelShape


@dataclass(frozen=True)
class ModelSource:
    """How a model is built: `write(folder, cache, talk)` fills an empty folder of at most `build_bytes`."""

    folder: str
    source: str
    build_bytes: int
    write: Callable[[Path, Path, Talk], None]


def _write_tiny(folder: Path, cache: Path, talk: Talk) -> None:
    write_tiny(folder)


MODELS: Mapping[str, ModelSource] = {
    "smollm2": ModelSource("smollm2-135m", SMOLLM2_SOURCE, SMOLLM2_BUILD_BYTES, write_smollm2),
    "tiny": ModelSource("tiny", f"seeded random Llama, seed {SEED}", 200_000_000, _write_tiny),
}


def build_model(name: str, cache: Path, talk: Talk, sources: Mapping[str, ModelSource] = MODELS) -> Path:
    """The folder of model `name` (smollm2 or tiny) below `cache`/models, built if it isn't there yet.

    Raises: SpecError for an unknown name; DeployError if the network, the disk or the checksum doesn't allow it.
    """
    if name not in sources:
        raise SpecError(f"model source is {name!r}; known are {', '.join(sorted(sources))}")
    source = sources[name]
    folder = cache / "models" / source.folder
    if _is_built(folder):
        return folder
    try:
        with held(folder.parent / f".{source.folder}.lock", f"building model {source.folder}", talk):
            if not _is_built(folder):
                _build(source, folder, cache, talk)
    except OSError as problem:
        raise _disk_error(problem, source, folder) from problem
    return folder


def _is_built(folder: Path) -> bool:
    """Whether the folder is whole, of this recipe, and its weights have the size they had."""
    try:
        identity = read_identity(folder)
        return identity.recipe == _RECIPE and _weights(folder).stat().st_size == identity.weights_bytes
    except (DeployError, FileNotFoundError):
        return False


def _build(source: ModelSource, folder: Path, cache: Path, talk: Talk) -> None:
    for left in folder.parent.glob(f".{source.folder}.building-*"):
        shutil.rmtree(left)  # we hold the lock, so its builder was killed
    _check_disk(source, folder.parent)
    began_s = clock.now_s()
    talk(f"building model {source.folder} ({source.source})")
    building = Path(tempfile.mkdtemp(prefix=f".{source.folder}.building-", dir=folder.parent))
    try:
        building.chmod(0o755)
        source.write(building, cache, talk)
        _write_identity(source, building)
        if folder.exists():
            shutil.rmtree(folder)
        building.rename(folder)
    finally:
        shutil.rmtree(building, ignore_errors=True)
    talk(f"built model {source.folder} in {clock.now_s() - began_s:.0f} s")


def _check_disk(source: ModelSource, parent: Path) -> None:
    free = shutil.disk_usage(parent).free
    if free < source.build_bytes:
        raise DeployError(
            f"model {source.folder} needs {source.build_bytes / 2**20:.0f} MiB, free are {free / 2**20:.0f} MiB",
            where=str(parent), hint="free space there, or choose another cache folder",
        )


def _disk_error(problem: OSError, source: ModelSource, folder: Path) -> DeployError:
    full = problem.errno in (errno.ENOSPC, errno.EDQUOT)
    hint = f"it needs {source.build_bytes / 2**20:.0f} MiB" if full else "check that the cache folder can be written"
    return DeployError(f"can't build model {source.folder}: {problem.strerror}", where=str(folder), hint=hint)


def _weights(folder: Path) -> Path:
    return folder / "model.safetensors"


def _write_identity(source: ModelSource, folder: Path) -> None:
    weights = _weights(folder)
    with weights.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    weights.chmod(0o644)
    identity = ModelIdentity(
        source.folder, source.source, _RECIPE, digest, weights.stat().st_size, read_shape(folder),
    )
    (folder / IDENTITY).write_bytes(msgspec.json.format(msgspec.json.encode(identity)) + b"\n")


def read_identity(folder: Path) -> ModelIdentity:
    """What a built model is.

    Raises: DeployError if the folder was not built here, or not to the end.
    """
    path = folder / IDENTITY
    try:
        return msgspec.json.decode(path.read_bytes(), type=ModelIdentity)
    except (FileNotFoundError, NotADirectoryError) as problem:
        raise DeployError(f"has no {IDENTITY}: it was not built by this program", where=str(folder)) from problem
    except msgspec.MsgspecError as problem:
        raise DeployError(f"is not the identity of a model: {problem}", where=str(path)) from problem


def read_shape(folder: Path) -> ModelShape:
    """Shape of a model from its config.json.

    Raises: DeployError if the folder has none, or it lacks a field.
    """
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text())
        return _shape(config)
    except (FileNotFoundError, NotADirectoryError) as problem:
        raise DeployError("is not a model folder: it has no config.json", where=str(folder)) from problem
    except (json.JSONDecodeError, KeyError, TypeError) as problem:
        raise DeployError(f"is not the config of a known kind of model: {problem}", where=str(path)) from problem


def _shape(config: dict[str, Any]) -> ModelShape:
    heads = config["num_attention_heads"]
    eos = config["eos_token_id"]
    return ModelShape(
        num_layers=config["num_hidden_layers"],
        num_kv_heads=config.get("num_key_value_heads", heads),
        head_dim=config.get("head_dim", config["hidden_size"] // heads),
        vocab_size=config["vocab_size"],
        max_positions=config["max_position_embeddings"],
        eos_token_ids=tuple(eos) if isinstance(eos, list) else (eos,),
    )
