"""locust with its fast HTTP client and a user of ours that reads the stream. It knows users, not arrivals."""

import json
from pathlib import Path

from bench.load.environments import package_version
from bench.load.tool import Job, Report
from testbed.stub.log import StubLog

_FIGURES = "figures.json"
_UNLIMITED_RPS = 5_000.0
"""A job above this asks for all that 64 users without a pause can do."""
_USERS = 64
_USER_FILE = Path(__file__).with_name("locust_user.py")


class Locust:
    """Each user makes one request a second, so a rate is a number of users; when these send is left to them."""

    name = "locust"
    packages = ("locust==2.47.0",)
    python = "python3.11"
    first_rps = 2 * _UNLIMITED_RPS
    open_loop = False

    def command(self, python: Path, job: Job) -> list[str]:
        """Without its web pages; it ends by itself when all requests are done."""
        unlimited = job.rate_rps > _UNLIMITED_RPS
        users = _USERS if unlimited else round(job.rate_rps)
        return [
            "env", f"BENCH_REQUESTS={job.requests}", f"BENCH_TOKENS={job.tokens}",
            f"BENCH_EACH_RPS={0 if unlimited else job.rate_rps / users}", f"BENCH_FIGURES={job.folder / _FIGURES}",
            str(python), "-m", "locust", "--headless", "--locustfile", str(_USER_FILE), "--host", job.url,
            "--users", str(users), "--spawn-rate", str(users), "--only-summary", "--stop-timeout", "5",
        ]

    def version(self, python: Path) -> str:
        """That of the package."""
        return package_version(python, "locust")

    def report(self, job: Job, log: StubLog) -> Report:
        """What the user file stamped; locust's own response time of a stream ends with its head."""
        return Report(*json.loads((job.folder / _FIGURES).read_text()))
