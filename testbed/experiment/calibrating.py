"""Calibrate the client of this machine, and keep the record where a run finds it.

A record is one of a machine and of the versions that do the client's work: with others it is made anew.
"""

import hashlib
import platform
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import msgspec

from testbed import __version__
from testbed.calibrate.client import ERROR_LIMIT_S, Setup, calibrate_client, pinned_setup
from testbed.calibrate.rate_search import Found
from testbed.clock import wall_time_text
from testbed.engines.processor import Processor, read_processor
from testbed.errors import JournalError
from testbed.journal.manifest import ClientCalibration
from testbed.missing import Missing
from testbed.workload.request import PlannedRequest

LIMIT_S = 180.0
_PROMPT_TOKENS = 64
_TIMEOUT_S = 30.0
_PARTS = ("httptools", "msgspec", "uvloop")


def measure_client(
    cache: Path, talk: Callable[[str], None], *, pinned: bool = False, limit_s: float = LIMIT_S
) -> ClientCalibration:
    """Calibrate, and keep the record in `cache`.

    Raises: RunError if the client is never exact enough, DeployError if it can't be pinned.
    """
    setup = pinned_setup() if pinned else Setup()
    talk(f"driving a stand-in, {setup.tokens} chunks an answer; {setup.placement}")
    record = _record(calibrate_client(_load(setup), setup, talk, limit_s), setup, read_processor())
    path = record_path(cache)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_bytes(msgspec.json.format(msgspec.json.encode(record)) + b"\n")
    partial.replace(path)
    talk(f"kept in {path}")
    return record


def known_client(cache: Path) -> ClientCalibration | Missing:
    """The record of this machine and these versions, if there is one.

    Raises: JournalError if it can't be read.
    """
    path = record_path(cache)
    if not path.is_file():
        return Missing("the client was not calibrated on this machine; `testbed calibrate client` does it")
    try:
        return msgspec.json.decode(path.read_bytes(), type=ClientCalibration)
    except msgspec.MsgspecError as problem:
        raise JournalError(f"is no calibration of a client: {problem}", where=str(path), hint="remove it") from problem


def record_path(cache: Path) -> Path:
    """Where the record of this machine lies, or would."""
    processor, versions = read_processor(), _versions()
    facts = [processor.name, processor.flags_sha256, str(processor.cores), *(f"{k} {v}" for k, v in versions.items())]
    digest = hashlib.sha256("\n".join(facts).encode()).hexdigest()[:12]
    return cache / "calibration" / f"client-{digest}.json"


def steady_load(rate_rps: float, seconds: float, *, prompt_tokens: int, max_tokens: int) -> list[PlannedRequest]:
    """Requests with equal gaps, the first at 0, each with a prompt of its own."""
    return [
        PlannedRequest(
            index=index, traffic_class="steady", scheduled_at_s=index / rate_rps,
            prompt=(index, *range(1, prompt_tokens)), max_tokens=max_tokens, stop="forced", timeout_s=_TIMEOUT_S,
        )
        for index in range(round(rate_rps * seconds))
    ]


def _load(setup: Setup) -> Callable[[float, float], list[PlannedRequest]]:
    return lambda rate_rps, seconds: steady_load(
        rate_rps, seconds, prompt_tokens=_PROMPT_TOKENS, max_tokens=setup.tokens
    )


def _versions() -> dict[str, str]:
    parts = {name: metadata.version(name) for name in _PARTS}
    return {"testbed": __version__, "python": platform.python_version(), **parts}


def _record(found: Found, setup: Setup, processor: Processor) -> ClientCalibration:
    best = found.best
    return ClientCalibration(
        machine=f"{processor.name}, {processor.cores} cores", created=wall_time_text(), versions=_versions(),
        cores=processor.cores, pinned=setup.pinned, placement=setup.placement, error_limit_s=ERROR_LIMIT_S,
        max_rps=best.rate_rps, ended_by=found.ended_by, answer_chunks=setup.tokens, ttft_s=setup.ttft_ms / 1e3,
        itl_s=setup.itl_ms / 1e3, send_lag_p50_s=best.lags_s[0], send_lag_p99_s=best.lags_s[1],
        send_lag_max_s=best.lags_s[2], client_cpu_ratio=best.client_cpu_ratio,
        **{name: getattr(best.accuracy, name) for name in best.accuracy.__dataclass_fields__},
    )
