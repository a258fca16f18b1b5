"""`testbed calibrate`: measure this machine, and keep what was found for the runs to come."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from testbed.journal.manifest import ClientCalibration


class What(StrEnum):
    """What can be calibrated."""

    CLIENT = "client"


def calibrate(
    what: Annotated[What, typer.Argument(help="client: the highest rate at which its times are exact.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the record as JSON.")] = False,
    pinned: Annotated[bool, typer.Option("--pinned", help="A core for the client, the others for the server.")] = False,
    limit_s: Annotated[float, typer.Option("--limit", min=1, help="Seconds after which no new rate is tried.")] = 180.0,
) -> None:
    """Measure this machine; takes a minute or two, and wants it idle."""
    import msgspec

    from testbed.cli.talk import talk
    from testbed.experiment.calibrating import measure_client
    from testbed.experiment.folders import default_folders

    record = measure_client(default_folders(Path("results")).cache, talk, pinned=pinned, limit_s=limit_s)
    typer.echo(msgspec.json.format(msgspec.json.encode(record)).decode() if as_json else summary(record))


def summary(record: "ClientCalibration") -> str:
    """The record in a few lines."""
    rows = (
        ("error of a request", record.error_p50_s, record.error_p99_s, record.error_max_s),
        ("TTFT error, the median with its sign", record.ttft_bias_s, record.ttft_error_p99_s, record.ttft_error_max_s),
        ("ITL error, the median with its sign", record.itl_bias_s, record.itl_error_p99_s, record.itl_error_max_s),
        ("send lag", record.send_lag_p50_s, record.send_lag_p99_s, record.send_lag_max_s),
    )
    return "\n".join([
        f"client: exact to {record.error_limit_s * 1e3:g} ms up to {record.max_rps:g} requests/s "
        f"of {record.answer_chunks} chunks each",
        f"{'in ms, at that rate':38}{'median':>9}{'p99':>9}{'max':>9}",
        *(f"{name:38}" + "".join(f"{value * 1e3:9.3f}" for value in values) for name, *values in rows),
        f"over {record.requests} requests, {record.chunks} chunks; client CPU {record.client_cpu_ratio:.0%} of a core",
        f"on {record.machine}; {record.placement}",
        f"the search ended there because {record.ended_by}",
    ])
