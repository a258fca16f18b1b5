"""One vLLM engine as text: its command line, environment, and the request that shows it ready."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from testbed.engines.serve import QUIET_ENV

LOOPBACK = "127.0.0.1"
MODULE = "vllm.entrypoints.openai.api_server"


@dataclass(frozen=True)
class EngineSettings:
    """What one engine is started with. `budget` is the most prefill tokens in a step; None: prefill is not chunked.

    `transfer` is its `--kv-transfer-config`, None for an engine without a connector. `args` are the user's flags.
    `gpu_share` is the part of its GPUs' memory that it may use, None on a CPU. Where `num_blocks` is None the engine
    takes as many blocks as fit.
    """

    python: str
    model_path: str
    served_name: str
    dtype: str
    port: int
    max_model_len: int
    block_size: int
    num_blocks: int | None
    budget: int | None
    prefix_caching: bool = True
    transfer: Mapping[str, Any] | None = None
    args: tuple[str, ...] = ()
    host: str = LOOPBACK
    tensor_parallel: int = 1
    gpu_share: float | None = None


def engine_command(settings: EngineSettings) -> tuple[str, ...]:
    """The command line. The failure policy stands inside `transfer` at the top level, where the engine reads it."""
    chunked = ("--enable-chunked-prefill",) if settings.budget else ("--no-enable-chunked-prefill",)
    caching = () if settings.prefix_caching else ("--no-enable-prefix-caching",)
    transfer = ("--kv-transfer-config", json.dumps(settings.transfer)) if settings.transfer else ()
    return (
        settings.python,
        "-m",
        MODULE,
        "--host",
        settings.host,
        "--port",
        str(settings.port),
        "--model",
        settings.model_path,
        "--served-model-name",
        settings.served_name,
        "--generation-config",
        "vllm",
        "--dtype",
        settings.dtype,
        "--max-model-len",
        str(settings.max_model_len),
        "--seed",
        "0",
        *(("--enforce-eager",) if settings.gpu_share is None else ()),
        "--block-size",
        str(settings.block_size),
        *_blocks(settings),
        "--max-num-batched-tokens",
        str(settings.budget if settings.budget else settings.max_model_len),
        "--enable-prompt-tokens-details",
        *_gpus(settings),
        *chunked,
        *caching,
        *transfer,
        *settings.args,
    )


def _blocks(settings: EngineSettings) -> tuple[str, ...]:
    return () if settings.num_blocks is None else ("--num-gpu-blocks-override", str(settings.num_blocks))


def _gpus(settings: EngineSettings) -> tuple[str, ...]:
    parallel = ("--tensor-parallel-size", str(settings.tensor_parallel)) if settings.tensor_parallel > 1 else ()
    share = () if settings.gpu_share is None else ("--gpu-memory-utilization", f"{settings.gpu_share:g}")
    return (*parallel, *share)


def gpu_engine_env(extra: Mapping[str, str]) -> dict[str, str]:
    """The environment of an engine on GPUs."""
    return {**QUIET_ENV, "VLLM_SERVER_DEV_MODE": "1", **extra}


def shared_cores_env(engines: int, cores: int) -> dict[str, str]:
    """Threads of each of several CPU engines on one machine: bound to no core, so that none idles beside a busy one.

    An engine that is alone gets none of this, and takes all cores.
    """
    if engines == 1:
        return {}
    return {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": str(max(1, cores // engines))}


def engine_env(kv_bytes: int, extra: Mapping[str, str]) -> dict[str, str]:
    """The environment of a CPU engine with room for `kv_bytes` of KV; the engine takes whole GiB only."""
    gibibytes = max(1, -(-kv_bytes // 2**30))
    return {**QUIET_ENV, "VLLM_CPU_KVCACHE_SPACE": str(gibibytes), "VLLM_SERVER_DEV_MODE": "1", **extra}


def ready_body(settings: EngineSettings) -> str:
    """A one-token completion: an engine is ready when it does work, not when a port is open."""
    return json.dumps({"model": settings.served_name, "prompt": [1, 2, 3, 4], "max_tokens": 1, "temperature": 0})


def flags_of(args: Mapping[str, Any]) -> tuple[str, ...]:
    """The user's extra settings as vLLM flags: `{max_num_seqs: 8}` is `--max-num-seqs 8`; true is a bare flag."""
    flags: list[str] = []
    for key, value in args.items():
        name = "--" + key.replace("_", "-")
        if value is True:
            flags.append(name)
        elif value is False:
            flags.append("--no-" + key.replace("_", "-"))
        else:
            flags += [name, value if isinstance(value, str) else json.dumps(value)]
    return tuple(flags)
