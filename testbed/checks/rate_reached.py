"""The client sent at the rate that it was asked for; if not, the run is about another load than the planned one."""

from testbed.checks.verdict import Finding, passed, unknown
from testbed.metrics import drives
from testbed.metrics.analysis import Analysis
from testbed.metrics.drives import Drive
from testbed.metrics.fidelity import RATE_REACHED_RATIO
from testbed.metrics.statistics import statistic
from testbed.metrics.throughput import finished_rps
from testbed.missing import Missing


def check(analysis: Analysis) -> Finding | None:
    """Lags within their limit are no shortfall. Does not apply where no drive has a rate of its own."""
    judged: list[str] = []
    short: list[str] = []
    for drive in analysis.drives:
        reached = drives.reached_ratio(drive, analysis.run.manifest.send_lag_limit_s)
        if isinstance(reached, Missing):
            continue
        told = f"{drive.name}: {_told(analysis, drive)}"
        judged.append(told)
        if reached < RATE_REACHED_RATIO:
            short.append(told)
    if not judged:
        return None
    if short:
        return unknown(f"rate not reached: a drive sent less than {RATE_REACHED_RATIO} of what it was asked for", short)
    return passed(f"each drive sent at least {RATE_REACHED_RATIO} of the rate that it was asked for", judged)


def _told(analysis: Analysis, drive: Drive) -> str:
    """All three rates, and the send delay."""
    arm = analysis.arm(drive.arm)
    finished = Missing("no such arm") if arm is None else finished_rps(analysis.arm_view(arm))
    rates = {
        "asked": drives.offered_rps([drive]), "sent": drives.sent_rps([drive]),
        "finished": finished if isinstance(finished, Missing) else finished.value,
    }
    return f"{', '.join(f'{name} {_rate(value)}' for name, value in rates.items())}; send lag {lags_told(drive)}"


def _rate(value: float | Missing) -> str:
    return str(value) if isinstance(value, Missing) else f"{value:.4g}/s"


def lags_told(drive: Drive) -> str:
    """The median and the longest lag, and the p99 where there are enough."""
    names = {"p50": statistic(drive.lags_s, "p50"), "p99": statistic(drive.lags_s, "p99")}
    known = [f"{name} {value * 1000:.1f} ms" for name, value in names.items() if not isinstance(value, Missing)]
    return ", ".join([*known, f"longest {drive.lags_s[-1] * 1000:.1f} ms"]) if known else "no value: nothing was sent"
