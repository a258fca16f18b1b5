"""guidellm from a file of prompts, which is quicker than its own synthesis of them."""

import json
from pathlib import Path

from bench.load.environments import package_version
from bench.load.tool import MODEL, PROMPT_TOKENS, Job, Report
from testbed.stub.log import StubLog

_RESULT, _PROMPTS = "result.json", "prompts.jsonl"


class Guidellm:
    """Its constant profile, with as many worker processes as it takes by itself."""

    name = "guidellm"
    packages = ("guidellm==0.8.1",)
    python = "python3.11"
    first_rps = 100.0
    open_loop = True

    def command(self, python: Path, job: Job) -> list[str]:
        """Text completions; the prompts are written first."""
        prompts = job.folder / _PROMPTS
        prompts.write_text("\n".join(_prompt(number, job.tokens) for number in range(job.requests)))
        return [
            str(python.with_name("guidellm")), "run", "--disable-console", "--backend",
            f"kind=openai_http,target={job.url},model={MODEL},request_format=/v1/completions", "--profile",
            f"kind=constant,rate={job.rate_rps}", "--constraint", f"kind=max_requests,count={job.requests}",
            "--tokenizer", f"kind=hf_auto,model={job.tokenizer}", "--data", f"kind=json_file,path={prompts}",
            "--output", f"kind=json,path={job.folder / _RESULT}",
        ]

    def version(self, python: Path) -> str:
        """That of the package."""
        return package_version(python, "guidellm")

    def report(self, job: Job, log: StubLog) -> Report:
        """Its inter-token latency is a mean of each request."""
        metrics = json.loads((job.folder / _RESULT).read_text())["benchmarks"][0]["metrics"]
        ttft, gap = (
            metrics[name]["successful"]["percentiles"] for name in ("time_to_first_token_ms", "inter_token_latency_ms")
        )
        return Report(ttft["p50"] / 1e3, ttft["p99"] / 1e3, gap["p50"] / 1e3, gap["p99"] / 1e3, gap="tpot")


def _prompt(number: int, tokens: int) -> str:
    words = " ".join(str((number * 7 + place) % 1_000) for place in range(PROMPT_TOKENS))
    return json.dumps({"prompt": words, "output_tokens_count": tokens})
