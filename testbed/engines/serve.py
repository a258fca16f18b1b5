"""The command that starts one vLLM engine on a CPU, and the environment that it needs."""

import sys
from pathlib import Path

QUIET_ENV = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "LMCACHE_TRACK_USAGE": "false",
    "LMCACHE_DISABLE_BANNER": "1",
    "VLLM_HOST_IP": "127.0.0.1",
    "PYTHONHASHSEED": "0",
}


def serve_command(model_folder: Path, dtype: str, port: int, max_model_len: int) -> tuple[list[str], dict[str, str]]:
    """Command and added environment of a plain engine on 127.0.0.1:`port` with 1 GiB of KV.

    The served name is that of the folder. PYTHONDONTWRITEBYTECODE must not be set, else each start takes a minute more.
    """
    command = [
        sys.executable, "-m", "vllm.entrypoints.openai.api_server",
        "--model", str(model_folder), "--served-model-name", model_folder.name,
        "--host", "127.0.0.1", "--port", str(port),
        "--dtype", dtype, "--max-model-len", str(max_model_len),
        "--enforce-eager", "--generation-config", "vllm", "--seed", "0",
    ]
    return command, QUIET_ENV | {"VLLM_CPU_KVCACHE_SPACE": "1"}
