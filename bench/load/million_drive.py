"""`python -m bench.load.million_drive URL REQUESTS RATE WORKERS FOLDER`: the drive that bench.load.million looks at."""

import sys
from pathlib import Path

import msgspec

from bench.load.lines import BURST_TOKENS
from bench.load.million import Told
from bench.load.tool import MODEL, PROMPT_TOKENS
from testbed.clock import now_ns
from testbed.drive.endpoint import Endpoint
from testbed.drive.options import DriveOptions
from testbed.drive.schedule import drive
from testbed.errors import RunError
from testbed.experiment.calibrating import steady_load
from testbed.journal.writer import JournalWriter
from testbed.missing import Missing


def main(arguments: list[str]) -> None:
    """Plan, drive, and tell what came of it."""
    url, requests, rate_rps, workers, folder = arguments
    load = steady_load(
        float(rate_rps), int(requests) / float(rate_rps), prompt_tokens=PROMPT_TOKENS, max_tokens=BURST_TOKENS
    )
    journal = JournalWriter(Path(folder) / "events", "driver")
    result = drive(
        load, Endpoint(url, MODEL), journal, request_id=lambda one: f"million.{one.index}",
        options=DriveOptions(workers=int(workers)),
    )
    took_s = (now_ns() - result.zero_at_ns) / 1e9
    journal.close()
    told = Told(
        result.counts, _number(result.send_lag_p50_s), _number(result.send_lag_p99_s), _number(result.send_lag_max_s),
        result.client_cpu_s, took_s,
    )
    print(msgspec.json.encode(told).decode(), flush=True)


def _number(value: float | Missing) -> float:
    if isinstance(value, Missing):
        raise RunError(value.reason)
    return value


if __name__ == "__main__":
    main(sys.argv[1:])
