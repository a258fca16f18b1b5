"""`python -m bench.load.million`: a million requests driven to the end, and what each costs in memory.

Three processes: the stand-in, which keeps counts alone; the drive, with as many workers as asked; and this one, which
looks at the memory of the drive's processes from outside. `make bench-million` calls it.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import psutil

from bench.load.lines import BURST
from bench.load.run import machine, talk
from testbed.clock import polls, wall_time_text
from testbed.errors import RunError
from testbed.stub.process import RunningStub, running_stub

LOOK_EVERY_S = 5.0
SPARE_S = 600.0
SETTLED_RATIO = 0.1
"""Growth counts from here on: by then connections, caches and the interpreter's own pools are filled."""
_ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Look:
    """The memory of each process of the drive at one moment, and how many requests had been served by then."""

    served: int
    bytes_by_pid: Mapping[int, int]


class Told(msgspec.Struct, frozen=True):
    """What the drive's process says at its end."""

    counts: dict[str, int]
    send_lag_p50_s: float
    send_lag_p99_s: float
    send_lag_max_s: float
    client_cpu_s: float
    took_s: float


def growth_bytes(looks: Sequence[Look], pid: int, requests: int) -> float:
    """Bytes by which a process grew for each request of all, from SETTLED_RATIO of the requests to the last look.

    Raises: RunError if it was seen too seldom for that.
    """
    seen = [look for look in looks if pid in look.bytes_by_pid and look.served >= SETTLED_RATIO * requests]
    if len(seen) < 2 or seen[0].served == seen[-1].served:
        raise RunError(f"process {pid} was seen {len(seen)} times, too seldom to tell its growth")
    first, last = seen[0], seen[-1]
    return (last.bytes_by_pid[pid] - first.bytes_by_pid[pid]) / (last.served - first.served)


def look_on(process: "subprocess.Popen[str]", stub: RunningStub, limit_s: float) -> Iterator[Look]:
    """A look each LOOK_EVERY_S until the process has ended.

    Raises: RunError if it does not end in time.
    """
    root = psutil.Process(process.pid)
    for _ in polls(limit_s, LOOK_EVERY_S):
        if process.poll() is not None:
            return
        served = stub.log()["ended"].get("served")
        if served is not None:
            yield Look(served, {one.pid: one.memory_info().rss for one in (root, *root.children(recursive=True))})
    process.kill()
    raise RunError(f"the drive was not done after {limit_s:.0f} s")


def run(requests: int, rate_rps: float, workers: int) -> tuple[Told, list[Look], int]:
    """Drive them; what the drive told, the looks at it, and the bytes of its journal."""
    with tempfile.TemporaryDirectory() as folder, running_stub(*BURST, "--log", "counts") as stub:
        command = [sys.executable, "-m", "bench.load.million_drive", stub.base_url, str(requests), str(rate_rps),
                   str(workers), folder]
        with subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.PIPE, text=True) as process:
            looks = []
            for look in look_on(process, stub, requests / rate_rps + SPARE_S):
                looks.append(look)
                talk(f"{look.served} served; " + ", ".join(f"{one / 2**20:.0f}" for one in look.bytes_by_pid.values()))
            assert process.stdout is not None
            said = process.stdout.read()
        if process.returncode:
            raise RunError(f"the drive ended with status {process.returncode}")
        journal_bytes = sum(path.stat().st_size for path in Path(folder).rglob("*.jsonl"))
        return msgspec.json.decode(said, type=Told), looks, journal_bytes


def page(asked: argparse.Namespace, told: Told, looks: Sequence[Look], journal_bytes: int, facts: str) -> str:
    """What was found, as Markdown."""
    rows = []
    for number, (pid, last_bytes) in enumerate(looks[-1].bytes_by_pid.items()):
        who = "the process that planned" if number == 0 and asked.workers > 1 else f"client process {max(number, 1)}"
        grew = growth_bytes(looks, pid, asked.requests)
        rows.append(f"| {who} | {last_bytes / 2**20:,.0f} | {grew:,.1f} |")
    counts = ", ".join(f"{count:,} {kind}" for kind, count in told.counts.items() if count)
    return "\n".join([
        "# A million requests", "",
        f"Measured {wall_time_text()} with `python -m bench.load.million {' '.join(sys.argv[1:])}`. {facts}.", "",
        f"{asked.requests:,} streamed requests at {asked.rate:,.0f}/s against the stand-in, burst answers of 8 chunks, "
        f"{asked.workers} worker(s): {counts}, in {told.took_s:,.0f} s.",
        f"Send lag p50 {told.send_lag_p50_s * 1e3:.2f} ms, p99 {told.send_lag_p99_s * 1e3:.2f} ms, max "
        f"{told.send_lag_max_s * 1e3:.1f} ms. CPU {told.client_cpu_s / asked.requests * 1e6:,.0f} us a request. The "
        f"journal has {journal_bytes / asked.requests:,.0f} bytes a request.", "",
        "| process | memory at the end [MiB] | grown by, a request of all [bytes] |", "|---|---|---|", *rows, "",
        "Growth counts from the first tenth of the requests on. This is one run.",
    ]) + "\n"


def main(arguments: list[str]) -> None:
    """Run it, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m bench.load.million", description=__doc__)
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--rate", type=float, default=2_000.0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("docs/bench-million.md"))
    asked = parser.parse_args(arguments)
    facts = "; ".join(f"{name}: {value}" for name, value in machine().items())
    text = page(asked, *run(asked.requests, asked.rate, asked.workers), facts)
    asked.out.write_text(text)
    print(text)


if __name__ == "__main__":
    main(sys.argv[1:])
