"""Run one tool once against a stand-in of its own: its CPU time, its memory, and what the stand-in saw of it."""

import os
import resource
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil
from numpy.typing import NDArray

from bench.load.tool import Job, Report, Tool
from testbed.clock import now_s, polls
from testbed.errors import RunError
from testbed.stub.log import Stamps, StubLog, all_stamps
from testbed.stub.process import RunningStub, running_stub

_LOOK_EVERY_S = 0.05
_MEMORY_EVERY_S = 0.5
_END_LIMIT_S = 10.0
_GRACE_S = 150.0
_SLOWEST = 8.0
"""A tool may take so many times as long as its schedule, for some fall behind, and _GRACE_S to start and to report."""
_CORES = len(os.sched_getaffinity(0))
_ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Placement:
    """Which cores client and stand-in run on; all of them where none are named."""

    name: str
    client_cores: tuple[int, ...] = ()
    stub_cores: tuple[int, ...] = ()


@dataclass(frozen=True)
class Measured:
    """One job as it was done. `cpu_s` and `peak_bytes` are of all the tool's processes together.

    `others_ratio` is the share of the machine's CPU time that neither the tool, the stand-in nor the harness took.
    """

    job: Job
    cpu_s: float
    peak_bytes: int
    wall_s: float
    others_ratio: float
    log: StubLog
    report: Report

    def stamps(self) -> list[Stamps]:
        """Of the job's own requests, in order; what came before them was a tool's look whether the server is there."""
        return sorted(all_stamps(self.log), key=lambda one: one.begun_at_ns)[-self.job.requests :]

    def lag_s(self, q: float) -> float:
        """A quantile of the lags; in the tool's own words where nobody else knows its schedule."""
        own_s = self.report.own_lag_s
        return float(np.quantile(self.lags_s(), q)) if own_s is None else own_s[q]

    def lags_s(self) -> NDArray[np.float64]:
        """Received minus scheduled: absolute where the tool tells its schedule, else against its least late request."""
        if self.report.lags_s is not None:
            return np.asarray(self.report.lags_s)
        received_s = np.array([one.begun_at_ns for one in self.stamps()]) / 1e9
        late_s = received_s - np.arange(len(received_s)) / self.job.rate_rps
        return np.asarray(late_s - late_s.min())

    def received_rps(self) -> float:
        """n - 1 gaps between the first request and the last."""
        stamps = self.stamps()
        return (len(stamps) - 1) / (stamps[-1].begun_at_ns - stamps[0].begun_at_ns) * 1e9


@dataclass(frozen=True)
class Installed:
    """A tool and the interpreter that runs it."""

    tool: Tool
    python: Path


def run_once(what: Installed, job: Job, stub_arguments: Sequence[str], placement: Placement) -> Measured:
    """Do `job` against a fresh stand-in.

    Raises: RunError if the tool fails, takes too long, or did not send all requests.
    """
    cores = ("--cores", ",".join(map(str, placement.stub_cores))) if placement.stub_cores else ()
    with tempfile.TemporaryDirectory() as folder, running_stub("--token-ids", "asked", *stub_arguments, *cores) as stub:
        job = job.within(stub.base_url, Path(folder))
        began_s, machine_s, ours_s = now_s(), _machine_cpu_s(), _known_cpu_s(stub)
        with _started(what, job, placement) as process:
            usage, peak_bytes = _wait(process, job.seconds * _SLOWEST + _GRACE_S, what.tool.name)
        wall_s, cpu_s = now_s() - began_s, usage.ru_utime + usage.ru_stime
        others_s = _machine_cpu_s() - machine_s - (_known_cpu_s(stub) - ours_s) - cpu_s
        log = stub.columns()
        served = log.ended.get("served")
        if served is None or served < job.requests:
            raise RunError(f"{what.tool.name} had {served} answers, {job.requests} were wanted")
        report = what.tool.report(job, log)
        others_ratio = max(others_s, 0.0) / (wall_s * _CORES)
        return Measured(job, cpu_s, peak_bytes, wall_s, others_ratio, log, report)


def _machine_cpu_s() -> float:
    """CPU time that all programs have taken since the machine began, or that its host has taken from it."""
    spent = psutil.cpu_times()
    return float(spent.user + spent.system + spent.nice + spent.irq + spent.softirq + spent.steal)


def _known_cpu_s(stub: RunningStub) -> float:
    """CPU time of the stand-in and of this process."""
    of = [psutil.Process(pid).cpu_times() for pid in (stub.process.pid, os.getpid())]
    return float(sum(one.user + one.system for one in of))


@contextmanager
def _started(what: Installed, job: Job, placement: Placement) -> Iterator["subprocess.Popen[bytes]"]:
    command = what.tool.command(what.python, job)
    if placement.client_cores:
        command = ["taskset", "-c", ",".join(map(str, placement.client_cores)), *command]
    output = job.folder.with_suffix(".said")
    with output.open("wb") as said:
        process = subprocess.Popen(
            command, cwd=_ROOT, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            yield process
        except RunError as problem:
            problem.hint = "it said: " + output.read_text(errors="replace").strip()[-1500:]
            raise
        finally:
            _end_group(process)
            output.unlink()


def _end_group(process: "subprocess.Popen[bytes]") -> None:
    """End what the tool has left behind in its own process group."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    if process.returncode is None:
        process.wait(_END_LIMIT_S)


def _wait(process: "subprocess.Popen[bytes]", limit_s: float, name: str) -> tuple[resource.struct_rusage, int]:
    """Wait for the end; what it used, and the most memory that all its processes had together."""
    peak_bytes, next_look_s = 0, 0.0
    for waited_s in polls(limit_s, _LOOK_EVERY_S):
        if waited_s >= next_look_s:
            peak_bytes = max(peak_bytes, _tree_bytes(process.pid))
            next_look_s = waited_s + _MEMORY_EVERY_S
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode:
                raise RunError(f"{name} ended with status {process.returncode}")
            return usage, peak_bytes
    raise RunError(f"{name} was not done after {limit_s:.0f} s")


def _tree_bytes(pid: int) -> int:
    try:
        root = psutil.Process(pid)
        return sum(one.memory_info().rss for one in (root, *root.children(recursive=True)))
    except psutil.NoSuchProcess:
        return 0
