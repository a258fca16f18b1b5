"""The section on the instrument itself: how true the client was to the plan, and what that was allowed to be."""

from testbed.checks.arrivals_as_intended import process_told
from testbed.journal.manifest import ClientCalibration
from testbed.metrics import drives
from testbed.metrics.analysis import Analysis
from testbed.metrics.drives import Drive
from testbed.metrics.fidelity import (
    ARRIVAL_DISTANCE_LIMIT,
    CPU_LIMIT_RATIO,
    RATE_REACHED_RATIO,
    STALL_LIMIT_S,
    STALLS_PER_S_LIMIT,
)
from testbed.metrics.hits import Hit
from testbed.metrics.statistics import statistic
from testbed.metrics.throughput import finished_rps
from testbed.missing import Missing
from testbed.report.content import Block, Cell, Items, Picture, Section, Table, Text, row
from testbed.report.wording import figure_number, number

HEAD = (
    "arm", "asked /s", "sent /s", "finished /s", "send lag p50", "p99", "longest", "arrivals bent by", "CPU share",
    "longest stall", "open at once",
)


def client_section(analysis: Analysis, picture: Picture) -> Section:
    """A row for each drive, the limits, the figure, and the prefix hits where the plan foretold them."""
    if not analysis.drives:
        return Section("The client", (Text("No request was planned, so there is nothing to tell of the client."),))
    rows = tuple(_drive(analysis, one) for one in analysis.drives)
    table = Table("Each drive: rates, lags, and the client itself", HEAD, rows)
    blocks: list[Block] = [table, picture, Items(tuple(_limits(analysis)))]
    if analysis.hits:
        blocks.append(_hits(analysis))
    return Section("The client", tuple(blocks))


def _drive(analysis: Analysis, drive: Drive) -> tuple[Cell, ...]:
    arm = analysis.arm(drive.arm)
    finished = Missing("no such arm") if arm is None else finished_rps(analysis.arm_view(arm))
    often = drives.stalls_per_s(drive)
    return row(
        Cell(drive.arm, f"repetition {drive.repetition}" if analysis.run.manifest.repetitions > 1 else ""),
        _cell(drives.offered_rps([drive])), _cell(drives.sent_rps([drive])),
        _cell(finished if isinstance(finished, Missing) else finished.value),
        _cell(statistic(drive.lags_s, "p50"), "s"), _cell(statistic(drive.lags_s, "p99"), "s"),
        _cell(drives.lag_max_s(drive), "s"), _cell(drives.arrival_distance(drive)), _cell(drives.cpu_ratio(drive)),
        _cell(drives.stall_max_s(drive), "s", "" if isinstance(often, Missing) else f"{figure_number(often)} stalls/s"),
        _cell(drives.SILENT if drive.client is None else float(drive.client.peak_open)),
    )


def _cell(value: float | Missing, unit: str = "", below: str = "") -> Cell:
    return Cell("no value", value.reason) if isinstance(value, Missing) else Cell(number(value, unit), below)


def _limits(analysis: Analysis) -> list[str]:
    manifest = analysis.run.manifest
    return [
        f"A run is not valid with a send lag p99 above {number(manifest.send_lag_limit_s, 's')} (below 100 sends the "
        f"longest counts); less than {RATE_REACHED_RATIO} of the asked rate sent; arrivals bent by more than "
        f"{ARRIVAL_DISTANCE_LIMIT}, lags within their limit aside; a CPU share above {CPU_LIMIT_RATIO}; a stall longer "
        f"than {STALL_LIMIT_S:g} s, or more than {STALLS_PER_S_LIMIT:g} a second; fewer than "
        f"{manifest.success_floor_ratio:.0%} of a class that succeeded.",
        "Arrivals are bent by the largest share of the schedule by which the sends were behind it: Kolmogorov and "
        "Smirnov's distance of the sent times from the due ones.",
        *(f"Arrivals of {name}: {process_told(facts)}." for name, facts in sorted(manifest.arrivals.items())),
        _calibration(manifest.client_calibration),
    ]


def _calibration(record: ClientCalibration | None) -> str:
    if record is None:
        return "The client is not calibrated on this machine, so its own error is not known."
    biases = f"TTFT {number(record.ttft_bias_s, 's')}, ITL {number(record.itl_bias_s, 's')}"
    return (
        f"Calibrated: up to {figure_number(record.max_rps)} requests/s the error of 99 of 100 requests stays below "
        f"{number(record.error_limit_s, 's')}, by the stamps of a stand-in; bias there: {biases}; {record.placement}."
    )


def _hits(analysis: Analysis) -> Table:
    head = ("arm", "requests", "planned", "found", "found ÷ planned", "overtaken")
    groups = {arm.name: [hit for hit in analysis.hits if hit.row.arm == arm.name] for arm in analysis.arms}
    return Table(
        "Prefix hits in tokens: what caches without an end would find by the plan, and what was found, in whole blocks",
        head, tuple(_hit_row(arm, hits) for arm, hits in groups.items() if hits),
    )


def _hit_row(arm: str, hits: list[Hit]) -> tuple[Cell, ...]:
    planned, found = sum(hit.planned_tokens for hit in hits), sum(hit.found_tokens for hit in hits)
    share = Missing("nothing was planned to hit") if planned == 0 else found / planned
    overtaken = sum(hit.overtaken for hit in hits)
    return row(
        arm, str(len(hits)), figure_number(float(planned)), figure_number(float(found)), _cell(share), str(overtaken),
    )
