"""The client was not what limited the run: it had time to spare, never stood still, and was not asked for too much."""

from testbed.checks.verdict import Finding, passed, unknown
from testbed.metrics import drives
from testbed.metrics.analysis import Analysis
from testbed.metrics.drives import Drive
from testbed.metrics.fidelity import CPU_LIMIT_RATIO, STALL_LIMIT_S, STALLS_PER_S_LIMIT
from testbed.missing import Missing


def check(analysis: Analysis) -> Finding | None:
    """Does not apply where no client speaks of itself. The rate of one without calibration is not judged."""
    if all(drive.client is None for drive in analysis.drives):
        return None
    wrong = [f"{drive.name}: {problem}" for drive in analysis.drives for problem in _problems(analysis, drive)]
    if wrong:
        return unknown("the client was too slow, or may have been", wrong)
    calibration = analysis.run.manifest.client_calibration
    beside = "the client is not calibrated on this machine" if calibration is None else (
        f"calibrated up to {calibration.max_rps:.4g} requests/s"
    )
    return passed(f"the client had time to spare; {beside}", [_numbers(drive) for drive in analysis.drives])


def _problems(analysis: Analysis, drive: Drive) -> list[str]:
    return [drives.SILENT.reason] if drive.client is None else [*_busy(drive), *_too_fast(analysis, drive)]


def _busy(drive: Drive) -> list[str]:
    limits = (
        (drives.cpu_ratio(drive), CPU_LIMIT_RATIO, "of its time on a processor"),
        (drives.stall_max_s(drive), STALL_LIMIT_S, "s for which its loop stood still"),
        (drives.stalls_per_s(drive), STALLS_PER_S_LIMIT, "stalls a second"),
    )
    return [
        f"{value:.3g} {what}, {limit:g} is allowed"
        for value, limit, what in limits if not isinstance(value, Missing) and value > limit
    ]


def _too_fast(analysis: Analysis, drive: Drive) -> list[str]:
    """Beyond the calibrated rate nobody knows the client's own error."""
    calibration, rate = analysis.run.manifest.client_calibration, drives.busiest_rps(drive)
    if calibration is None or isinstance(rate, Missing) or rate <= calibration.max_rps:
        return []
    limit_ms = calibration.error_limit_s * 1000
    return [f"{rate:.4g} requests in one second; its error is known to stay below {limit_ms:g} ms only up to "
            f"{calibration.max_rps:.4g}"]


def _numbers(drive: Drive) -> str:
    values = drives.cpu_ratio(drive), drives.stall_max_s(drive), drives.stalls_per_s(drive)
    cpu, stall, often = (str(one) if isinstance(one, Missing) else f"{one:.3g}" for one in values)
    return f"{drive.name}: {cpu} of its time on a processor, longest stall {stall} s, {often} stalls a second"
