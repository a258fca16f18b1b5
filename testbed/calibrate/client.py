"""How well the client keeps time on this machine, and up to which rate: `calibrate_client`.

The client drives the stand-in, which stamps what it receives and sends on the same clock. What differs is an error, of
the client, of the loopback between them, or of a stand-in that is late to look at its socket. These can't be told
apart: all of it is counted against the client.
"""

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.calibrate.accuracy import accuracy, request_errors
from testbed.calibrate.rate_search import Failed, Found, Held, Trial, highest_rate
from testbed.clock import now_s
from testbed.drive.endpoint import Endpoint
from testbed.drive.schedule import DriveResult, drive
from testbed.errors import DeployError
from testbed.journal.events import RequestEnded
from testbed.journal.reader import load_journal
from testbed.journal.writer import JournalWriter
from testbed.missing import Missing
from testbed.stub.log import StubLog, stamps_by_id
from testbed.stub.process import running_stub

ERROR_LIMIT_S = 0.001
LAG_LIMIT_S = 0.005
LEAST_RATE_RATIO = 0.98
WARM_UP_S = 0.5
"""Requests of this first part open the connections; they are sent and not judged."""

Load = Callable[[float, float], Sequence[Any]]
"""Planned requests at a steady rate for so many seconds; who calls makes them, since this room knows no workloads."""


@dataclass(frozen=True)
class Setup:
    """What is driven. Each answer has `tokens` chunks. `seconds` is the measured part of one try."""

    ttft_ms: float = 20.0
    itl_ms: float = 5.0
    tokens: int = 32
    seconds: float = 2.5
    least_requests: int = 200
    client_cores: tuple[int, ...] = ()
    stub_cores: tuple[int, ...] = ()

    @property
    def pinned(self) -> bool:
        """Whether client and stand-in have cores of their own."""
        return bool(self.client_cores)

    @property
    def placement(self) -> str:
        """In words, which cores who had."""
        if self.pinned:
            return f"client on core {_listed(self.client_cores)}, stand-in on {_listed(self.stub_cores)}"
        return f"client and stand-in share cores {_listed(sorted(os.sched_getaffinity(0)))}"

    def stub_arguments(self) -> tuple[str, ...]:
        """The command line of the stand-in."""
        cores = ("--cores", ",".join(map(str, self.stub_cores))) if self.stub_cores else ()
        return ("--ttft-ms", str(self.ttft_ms), "--itl-ms", str(self.itl_ms), *cores)


def pinned_setup() -> Setup:
    """The client on the first core that this process may use, the stand-in on the others.

    Raises: DeployError if there is but one.
    """
    first, *others = sorted(os.sched_getaffinity(0))
    if not others:
        raise DeployError("client and stand-in can't have a core each: there is but one", hint="leave --pinned out")
    return Setup(client_cores=(first,), stub_cores=tuple(others))


def calibrate_client(load: Load, setup: Setup, talk: Callable[[str], None], limit_s: float) -> Found:
    """Search the highest rate at which the error of 99 of 100 requests stays below ERROR_LIMIT_S.

    Takes about a minute, at most `limit_s` and one try. Raises: RunError if none does.
    """
    ends_at_s = now_s() + limit_s

    def try_rate(rate_rps: float) -> Trial:
        trial = run_trial(load, setup, rate_rps)
        talk(f"{rate_rps:6g}/s: {_told(trial)}")
        return trial

    with on_cores(setup.client_cores):
        return highest_rate(try_rate, lambda: now_s() > ends_at_s)


def _told(trial: Trial) -> str:
    if isinstance(trial, Failed):
        return trial.reason
    found = trial.accuracy
    return (
        f"error p50 {found.error_p50_s * 1e3:.2f} ms, p99 {found.error_p99_s * 1e3:.2f} ms over {found.requests} "
        f"requests; lag p99 {trial.lags_s[1] * 1e3:.2f} ms; client CPU {trial.client_cpu_ratio:.0%}"
    )


@contextmanager
def on_cores(cores: Sequence[int]) -> Iterator[None]:
    """Within it this thread, and what it starts, runs on `cores` alone; all it had if there are none given."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores if cores else before)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def run_trial(load: Load, setup: Setup, rate_rps: float) -> Trial:
    """Drive a stand-in of its own at `rate_rps`, and judge the client by its stamps."""
    seconds = WARM_UP_S + max(setup.seconds, setup.least_requests / rate_rps)
    requests = load(rate_rps, seconds)
    measured = {_name(one) for one in requests if one.scheduled_at_s >= WARM_UP_S}
    with tempfile.TemporaryDirectory() as folder, running_stub(*setup.stub_arguments()) as stub:
        journal = JournalWriter(Path(folder) / "events", "client")
        try:
            result = drive(requests, Endpoint(stub.base_url, "stub"), journal, request_id=_name)
        finally:
            journal.close()
        ended = load_journal(Path(folder)).select(RequestEnded)
        log = stub.columns()
    return judge(rate_rps, result, [one for one in ended if one.request_id in measured], log)


def _name(request: Any) -> str:
    return f"calibrate.{request.index}"


def judge(rate_rps: float, result: DriveResult, ended: Sequence[RequestEnded], log: StubLog) -> Trial:
    """Whether the client kept its limits in one drive.

    Raises: RunError if its journal does not fit the stand-in's log.
    """
    bad = [one for one in ended if one.outcome != "ok"]
    lags_s = _lags_s(result)
    if bad:
        return Failed(rate_rps, f"{len(bad)} of {len(ended)} requests ended with {bad[0].outcome} {bad[0].reason}")
    if lags_s is None:
        return Failed(rate_rps, f"only {len(ended)} requests were sent")
    reached_rps, lag_s = _sent_rps(ended), lags_s[1]
    if reached_rps < LEAST_RATE_RATIO * rate_rps:
        return Failed(rate_rps, f"only {reached_rps:.0f}/s were sent")
    if lag_s > LAG_LIMIT_S:
        return Failed(rate_rps, f"the p99 of the send lag was {lag_s * 1e3:.2f} ms, above {LAG_LIMIT_S * 1e3:g} ms")
    found = accuracy(request_errors(ended, stamps_by_id(log)))
    if found.error_p99_s > ERROR_LIMIT_S:
        what = f"the p99 of the error was {found.error_p99_s * 1e3:.2f} ms"
        return Failed(rate_rps, f"{what}, above {ERROR_LIMIT_S * 1e3:g} ms")
    window_s = (max(one.ended_at_ns for one in ended) - result.zero_at_ns) / 1e9
    return Held(rate_rps, found, lags_s, result.client_cpu_s / window_s)


def _lags_s(result: DriveResult) -> tuple[float, float, float] | None:
    """p50, p99 and max; None where too few were sent for a p99."""
    p50_s, p99_s, max_s = result.send_lag_p50_s, result.send_lag_p99_s, result.send_lag_max_s
    if isinstance(p50_s, Missing) or isinstance(p99_s, Missing) or isinstance(max_s, Missing):
        return None
    return p50_s, p99_s, max_s


def _sent_rps(ended: Sequence[RequestEnded]) -> float:
    """The rate at which they went out: n - 1 gaps from the first to the last."""
    sent = [one.sent_at_ns for one in ended if one.sent_at_ns is not None]
    return (len(sent) - 1) / (max(sent) - min(sent)) * 1e9


def _listed(cores: Sequence[int]) -> str:
    return ", ".join(map(str, cores))
