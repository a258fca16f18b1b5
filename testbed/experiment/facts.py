"""Find out what a plan must know of this machine: model, dtype, speed, programs, ports, memory."""

import os
import random
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import psutil

from testbed.engines.models import build_model, read_shape
from testbed.engines.preflight import PreflightRecord, preflight
from testbed.errors import DeployError
from testbed.experiment.traces import token_counter
from testbed.plan.facts import Facts, MachineFacts, ModelFacts
from testbed.spec.machine import DTYPE_BYTES, Model
from testbed.tiers import programs
from testbed.workload.corpus import stdlib_text
from testbed.workload.scale import Speed

Talk = Callable[[str], None]
_RESERVE_BYTES = 1_000_000_000
_LEAST_DISTINCT = 200
_SEEDED_TOKENS = 50_000
_SEED = 11
_FIRST_ID = 16  # the ids below are those of special tokens


def machine_facts() -> MachineFacts:
    """Programs beside this interpreter or on the path, listening ports, and memory that is free now."""
    beside = Path(sys.executable).parent
    path = f"{beside}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    lmcache = shutil.which(programs.LMCACHE, path=path)
    if lmcache is None:
        raise DeployError("there is no lmcache program", hint="run `make setup`")
    busy = {one.laddr.port for one in psutil.net_connections(kind="inet") if one.status == psutil.CONN_LISTEN}
    return MachineFacts(
        python=sys.executable,
        lmcache=lmcache,
        redis=shutil.which(programs.REDIS, path=path),
        busy_ports=frozenset(busy),
        available_bytes=psutil.virtual_memory().available - _RESERVE_BYTES,
        shared_memory_bytes=shutil.disk_usage("/dev/shm").free,
        cores=len(os.sched_getaffinity(0)),
        mooncake_master=shutil.which(programs.MOONCAKE_MASTER, path=path),
    )


def model_folder(model: Model, cache: Path, talk: Talk) -> Path:
    """Where the model lies, built first if it is one of ours."""
    if model.source == "hub":
        raise DeployError(
            f"model {model.name} is not on this disk: its file says only what a plan needs", where="model",
            hint=f"fetch {model.hub}, and give its folder: --set model=FOLDER",
        )
    if model.source == "folder":
        folder = Path(model.folder or "")
        if not (folder / "config.json").is_file():
            raise DeployError(
                "holds no model", where=str(folder), hint="give a folder with config.json and safetensors"
            )
        return folder
    return build_model(model.source, cache, talk)


def find_facts(model: Model, cache: Path, talk: Talk) -> tuple[Facts, PreflightRecord]:
    """Build what is missing, measure what was not measured yet, and look at this machine."""
    folder = model_folder(model, cache, talk)
    record = preflight(folder, model.name, cache, talk)
    shape = read_shape(folder)
    facts = ModelFacts(
        name=model.name,
        folder=str(folder),
        dtype=record.dtype,
        kv_bytes_per_token=shape.kv_bytes_per_token(DTYPE_BYTES[record.dtype]),
        max_model_len=min(model.max_model_len, shape.max_positions),
    )
    points = tuple((point.prompt_tokens, point.median_s) for point in record.speed.prefill)
    speed = Speed(points, record.speed.decode_s_per_token)
    return Facts(facts, machine_facts(), speed, corpus_tokens(folder), token_counter(folder)), record


def corpus_tokens(folder: Path) -> tuple[int, ...]:
    """The corpus as token ids of this model, without special tokens.

    A vocabulary that knows next to no word of the text, such as that of the tiny model, gets seeded ids instead.
    """
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    ids = tokenizer.encode(stdlib_text(), add_special_tokens=False).ids
    if len(set(ids)) >= _LEAST_DISTINCT:
        return tuple(ids)
    draw = random.Random(_SEED)
    return tuple(draw.choices(range(_FIRST_ID, read_shape(folder).vocab_size), k=_SEEDED_TOKENS))
