"""inference-perf. What it calls a constant rate has gaps drawn at random, so only itself can tell when it was late."""

import json
from pathlib import Path

from bench.load.environments import package_version
from bench.load.tool import MODEL, PROMPT_TOKENS, Job, Report
from testbed.stub.log import StubLog

_SETTINGS, _RESULTS = "settings.json", "reports"


class InferencePerf:
    """As many worker processes as it takes by itself."""

    name = "inference-perf"
    packages = ("inference-perf==0.7.0",)
    python = "python3.12"
    first_rps = 200.0
    open_loop = True

    def command(self, python: Path, job: Job) -> list[str]:
        """Random prompts; the settings are written first, as JSON, which is YAML too."""
        path = job.folder / _SETTINGS
        path.write_text(json.dumps(_settings(job)))
        return [str(python.with_name("inference-perf")), "--config_file", str(path)]

    def version(self, python: Path) -> str:
        """That of the package."""
        return package_version(python, "inference-perf")

    def report(self, job: Job, log: StubLog) -> Report:
        """Its inter-token latency is of all gaps together."""
        found = json.loads((job.folder / _RESULTS / "summary_lifecycle_metrics.json").read_text())
        latency, delay = found["successes"]["latency"], found["load_summary"]["schedule_delay"]
        ttft, gap = latency["time_to_first_token"], latency["inter_token_latency"]
        return Report(
            ttft["median"], ttft["p99"], gap["median"], gap["p99"], own_lag_s={0.5: delay["median"], 0.99: delay["p99"]}
        )


def _settings(job: Job) -> dict[str, object]:
    def exactly(tokens: int) -> dict[str, int]:
        return {"min": tokens, "max": tokens, "mean": tokens, "std_dev": 0, "total_count": job.requests}

    return {
        "load": {"type": "constant", "stages": [{"rate": job.rate_rps, "duration": round(job.seconds)}]},
        "api": {"type": "completion", "streaming": True},
        "server": {"type": "vllm", "model_name": MODEL, "base_url": job.url, "ignore_eos": True},
        "tokenizer": {"pretrained_model_name_or_path": str(job.tokenizer)},
        "data": {
            "type": "random", "input_distribution": exactly(PROMPT_TOKENS), "output_distribution": exactly(job.tokens),
        },
        "report": {"request_lifecycle": {"summary": True, "per_request": False, "percentiles": [50, 99]}},
        "storage": {"local_storage": {"path": str(job.folder / _RESULTS)}},
    }
