"""Ask a running engine: completions, its own counters, its cache reset, and the settings it really has."""

from collections.abc import Mapping, Sequence
from typing import Any

from testbed.engines.command import EngineSettings
from testbed.errors import RunError

_GAUGES = {
    "vllm:num_requests_running": "running",
    "vllm:num_requests_waiting": "waiting",
    "vllm:kv_cache_usage_perc": "kv_usage_ratio",
    "vllm:num_preemptions_total": "preemptions",
    "vllm:external_prefix_cache_hits_total": "promised_tokens",
    "vllm:prompt_tokens_total": "prompt_tokens",
    "vllm:generation_tokens_total": "output_tokens",
}
_LABELLED = {
    ("vllm:num_requests_waiting_by_reason", 'reason="deferred"'): "deferred",
    ("vllm:num_requests_kv_fetch_by_stage", 'stage="in_progress"'): "loading",
    ("vllm:prompt_tokens_by_source_total", 'source="local_compute"'): "computed_tokens",
    ("vllm:prompt_tokens_by_source_total", 'source="local_cache_hit"'): "local_tokens",
    ("vllm:prompt_tokens_by_source_total", 'source="external_kv_transfer"'): "loaded_tokens",
}


def read_gauges(text: str) -> dict[str, float]:
    """Our neutral names and values out of the engine's Prometheus page; what it does not show is absent."""
    found: dict[str, float] = {}
    for line in text.splitlines():
        name, _, rest = line.partition("{")
        ours = _GAUGES.get(name)
        if ours is None:
            ours = next(
                (value for (metric, label), value in _LABELLED.items() if metric == name and label in rest), None
            )
        if ours is not None:
            found[ours] = float(line.rpartition(" ")[2])
    return found


class EngineApi:
    """One engine at `url`. Each call has a deadline, is made once, and raises RunError with the engine's words."""

    def __init__(self, url: str, served_name: str, limit_s: float = 60.0) -> None:
        import httpx

        self.url = url
        self.served_name = served_name
        self._client = httpx.Client(
            base_url=url, timeout=limit_s, transport=httpx.HTTPTransport(retries=0), trust_env=False
        )
        self._errors = httpx.HTTPError

    def _ask(self, method: str, path: str, *, body: object = None, headers: Mapping[str, str] | None = None) -> Any:
        try:
            answer = self._client.request(method, path, json=body, headers=headers)
        except self._errors as problem:
            raise RunError(f"{method} {path}: {type(problem).__name__} {problem}", where=self.url) from problem
        if answer.status_code != 200:
            raise RunError(f"{method} {path} answered {answer.status_code}: {answer.text[:300]}", where=self.url)
        return answer

    def close(self) -> None:
        """Give the connections back."""
        self._client.close()

    def complete(
        self, prompt: Sequence[int], max_tokens: int, request_id: str, extra: Mapping[str, Any] | None = None
    ) -> Any:
        """One greedy completion, not streamed; the engine's whole JSON answer."""
        body = {
            "model": self.served_name,
            "prompt": list(prompt),
            "max_tokens": max_tokens,
            "temperature": 0,
            "return_token_ids": True,
            **(extra or {}),
        }
        return self._ask("POST", "/v1/completions", body=body, headers={"X-Request-Id": request_id}).json()

    def gauges(self) -> dict[str, float]:
        """The engine's own counts now, by our names."""
        return read_gauges(self._ask("GET", "/metrics").text)

    def reset_prefix_cache(self) -> bool:
        """Drop the engine's own prefix cache; False when it would not, since blocks are in use."""
        return bool(self._ask("POST", "/reset_prefix_cache").json().get("success"))

    def settings(self) -> dict[str, Any]:
        """What the engine itself says it runs with, under neutral names."""
        config = self._ask("GET", "/server_info?config_format=json").json()["vllm_config"]
        transfer = config.get("kv_transfer_config") or {}
        return {
            "dtype": str(config["model_config"]["dtype"]).removeprefix("torch."),
            "max_model_len": config["model_config"]["max_model_len"],
            "block_size": config["cache_config"]["block_size"],
            "num_blocks": config["cache_config"]["num_gpu_blocks_override"],
            "prefix_caching": config["cache_config"]["enable_prefix_caching"],
            "chunked_prefill": config["scheduler_config"]["enable_chunked_prefill"],
            "budget": config["scheduler_config"]["max_num_batched_tokens"],
            "connector": transfer.get("kv_connector"),
            "connector_role": transfer.get("kv_role"),
            "load_failure_policy": transfer.get("kv_load_failure_policy"),
            "tensor_parallel": config["parallel_config"]["tensor_parallel_size"],
        }


def wanted_settings(asked: EngineSettings) -> dict[str, Any]:
    """What `EngineApi.settings` must give for an engine that was started with `asked`."""
    transfer = asked.transfer if asked.transfer is not None else {}
    return {
        "dtype": asked.dtype,
        "max_model_len": asked.max_model_len,
        "block_size": asked.block_size,
        "num_blocks": asked.num_blocks,
        "prefix_caching": asked.prefix_caching,
        "chunked_prefill": asked.budget is not None,
        "budget": asked.budget if asked.budget else asked.max_model_len,
        "connector": transfer.get("kv_connector"),
        "connector_role": transfer.get("kv_role"),
        "load_failure_policy": transfer.get("kv_load_failure_policy"),
        "tensor_parallel": asked.tensor_parallel,
    }
