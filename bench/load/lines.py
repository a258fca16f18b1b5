"""The lines of the table, each for one tool in one placement, measured once. What could not be measured is said."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.load.measure import Installed, Measured, Placement, run_once
from bench.load.tool import Job
from testbed.errors import RunError
from testbed.missing import Missing

BURST = ("--burst", "--ttft-ms", "0")
PACED = ("--ttft-ms", "20", "--itl-ms", "5")
BURST_TOKENS, PACED_TOKENS = 8, 64
LAG_LIMIT_S = 0.005
LAG_RATES, COST_RATES = (50.0, 100.0, 400.0), (100.0, 400.0)
SECONDS, LEAST_REQUESTS = 4.0, 200
PACED_FEW, PACED_MANY = (200, 25.0), (800, 100.0)
MEMORY_REQUESTS, MEMORY_RPS = (1_600, 8_000), 400.0
CLOSE_ENOUGH, LOWEST_RPS, MOST_RUNS = 1.15, 20.0, 9

Values = Mapping[str, float | Missing]
Talk = Callable[[str], None]


@dataclass(frozen=True)
class Extent:
    """How much is measured: `lag_rates` of burst answers, and beside rate and lag the costs and errors, and memory."""

    lag_rates: tuple[float, ...]
    costs: bool
    memory: bool


class Bench:
    """One tool in one placement, for one repeat."""

    def __init__(self, what: Installed, placement: Placement, tokenizer: Path, talk: Talk) -> None:
        self.tool = what.tool
        self.talk = talk
        self._what = what
        self._placement = placement
        self._tokenizer = tokenizer
        self._bursts: dict[float, Measured] = {}
        self.others: list[float] = []

    def run(self, requests: int, rate_rps: float, tokens: int, stub: tuple[str, ...]) -> Measured:
        """One job; see run_once."""
        job = Job("", requests, rate_rps, tokens, Path(), self._tokenizer)
        done = run_once(self._what, job, stub, self._placement)
        p99_ms = f", lag p99 {done.lag_s(0.99) * 1e3:.2f} ms" if self.tool.open_loop else ""
        self.others.append(done.others_ratio)
        who = f"{self.tool.name}, {self._placement.name}"
        used = f"took {done.wall_s:.1f} s, CPU {done.cpu_s:.2f} s, others {done.others_ratio:.0%}"
        self.talk(f"{who}: {requests} at {rate_rps:g}/s {used}{p99_ms}")
        return done

    def burst(self, rate_rps: float) -> Measured:
        """Some seconds of answers that come in one piece; once for each rate."""
        if rate_rps not in self._bursts:
            seconds = max(SECONDS, math.ceil(LEAST_REQUESTS / rate_rps))
            self._bursts[rate_rps] = self.run(round(rate_rps * seconds), rate_rps, BURST_TOKENS, BURST)
        return self._bursts[rate_rps]


def measure(bench: Bench, first_rps: float, *, narrow: bool, extent: Extent) -> dict[str, float | Missing]:
    """All lines of `extent` once. What breaks is said in a line of its own, "problem".

    The search for the rate begins at `first_rps`; with `narrow` that is near to what it will be.
    """
    parts: list[Callable[[], Values]] = [
        lambda: _lags(bench, extent.lag_rates), lambda: _rate(bench, first_rps, narrow),
    ]
    if extent.costs:
        parts += [lambda: _burst_cost(bench), lambda: _paced(bench)]
    if extent.memory:
        parts.append(lambda: _memory(bench))
    values: dict[str, float | Missing] = {}
    for part in parts:
        try:
            values |= part()
        except RunError as problem:
            bench.talk(f"{bench.tool.name}: {problem}")
            values["problem"] = Missing(problem.message)
    if bench.others:
        values["others_percent"] = float(np.median(bench.others)) * 100
    return values


def _rate(bench: Bench, first_rps: float, narrow: bool) -> Values:
    if not bench.tool.open_loop:
        done = bench.run(20_000, first_rps, BURST_TOKENS, BURST)
        return {"highest_rps": done.received_rps()}
    return {"highest_rps": highest_rps(lambda rate: bench.burst(rate).lag_s(0.99) <= LAG_LIMIT_S, first_rps, narrow)}


def highest_rps(holds: Callable[[float], bool], first_rps: float, narrow: bool) -> float | Missing:
    """The highest rate that held: in steps of two, or of a quarter when `narrow`, then halving the ratio."""
    step = 1.25 if narrow else 2.0
    best: float | None = None
    failed: float | None = None
    rate = first_rps
    for _ in range(MOST_RUNS):
        if _holds(holds, rate):
            best = rate
        else:
            failed = rate
        if failed is None:
            rate *= step
        elif best is None and rate <= LOWEST_RPS:
            break
        elif best is None:
            rate /= step
        elif failed <= best * CLOSE_ENOUGH:
            break
        else:
            rate = float(round(math.sqrt(best * failed)))
    return Missing(f"its lag p99 is above {LAG_LIMIT_S * 1e3:g} ms even at {rate:.0f}/s") if best is None else best


def _holds(holds: Callable[[float], bool], rate: float) -> bool:
    try:
        return holds(rate)
    except RunError:
        return False  # it could not even end in time; run_once has said so


def _lags(bench: Bench, rates: Sequence[float]) -> Values:
    if not bench.tool.open_loop:
        return {}
    return {
        f"lag_p{q * 100:.0f}_ms_at_{rate:g}": bench.burst(rate).lag_s(q) * 1e3 for rate in rates for q in (0.5, 0.99)
    }


def _burst_cost(bench: Bench) -> Values:
    """What a request costs: the difference between two runs, so without the start."""
    few, many = (bench.burst(rate) for rate in COST_RATES)
    return {"cpu_s_per_1000": (many.cpu_s - few.cpu_s) / (many.job.requests - few.job.requests) * 1e3}


def _paced(bench: Bench) -> Values:
    few = bench.run(*PACED_FEW, PACED_TOKENS, PACED)
    many = bench.run(*PACED_MANY, PACED_TOKENS, PACED)
    chunks = (many.job.requests - few.job.requests) * PACED_TOKENS
    return {"cpu_us_per_chunk": (many.cpu_s - few.cpu_s) / chunks * 1e6, **errors_ms(few)}


def _memory(bench: Bench) -> Values:
    short, long = (bench.run(requests, MEMORY_RPS, BURST_TOKENS, BURST) for requests in MEMORY_REQUESTS)
    grown_mib = (long.peak_bytes - short.peak_bytes) / 2**20
    return {"mib_per_100k": grown_mib / (long.job.requests - short.job.requests) * 1e5}


def errors_ms(done: Measured) -> Values:
    """The tool's own figures minus the same ones of the server's stamps."""
    stamps, report = done.stamps(), done.report
    ttft_s = [(one.sent_at_ns[0] - one.received_at_ns) / 1e9 for one in stamps]
    gaps_s = [np.diff(one.sent_at_ns) / 1e9 for one in stamps]
    by_server = np.concatenate(gaps_s) if report.gap == "itl" else np.array([one.mean() for one in gaps_s])
    told = {
        "ttft_p50": (report.ttft_p50_s, ttft_s, 0.5), "ttft_p99": (report.ttft_p99_s, ttft_s, 0.99),
        "gap_p50": (report.gap_p50_s, by_server, 0.5), "gap_p99": (report.gap_p99_s, by_server, 0.99),
    }
    return {
        f"{name}_error_ms": said if isinstance(said, Missing) else (said - float(np.quantile(stamped, q))) * 1e3
        for name, (said, stamped, q) in told.items()
    }
