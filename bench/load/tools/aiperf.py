"""aiperf with its synthetic prompts; it starts a handful of processes, and as many workers as it takes by itself."""

import json
from pathlib import Path

from bench.load.environments import package_version
from bench.load.tool import MODEL, PROMPT_TOKENS, Job, Report
from testbed.stub.log import StubLog

_RESULT = "profile_export_aiperf.json"


class Aiperf:
    """Its constant arrival pattern."""

    name = "aiperf"
    packages = ("aiperf==0.13.0",)
    python = "python3.11"
    first_rps = 100.0
    open_loop = True

    def command(self, python: Path, job: Job) -> list[str]:
        """Streamed text completions; tokens as the server counts them."""
        return [
            str(python.with_name("aiperf")), "profile", "--model", MODEL, "--url", job.url, "--endpoint-type",
            "completions", "--streaming", "--tokenizer", str(job.tokenizer), "--use-server-token-count",
            "--request-rate", str(job.rate_rps), "--arrival-pattern", "constant", "--request-count", str(job.requests),
            "--synthetic-input-tokens-mean", str(PROMPT_TOKENS), "--synthetic-input-tokens-stddev", "0",
            "--output-tokens-mean", str(job.tokens), "--extra-inputs", "ignore_eos:true", "--ui", "none",
            "--artifact-dir", str(job.folder),
        ]

    def version(self, python: Path) -> str:
        """That of the package."""
        return package_version(python, "aiperf")

    def report(self, job: Job, log: StubLog) -> Report:
        """Its inter-chunk latency is of all gaps together; its inter-token latency would be a mean of each request."""
        found = json.loads((job.folder / _RESULT).read_text())
        ttft, gap = found["time_to_first_token"], found["inter_chunk_latency"]
        return Report(ttft["p50"] / 1e3, ttft["p99"] / 1e3, gap["p50"] / 1e3, gap["p99"] / 1e3)
