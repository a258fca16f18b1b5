"""The router as a process of its own, before stand-in engines that are processes too: frozen, killed, started again."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import msgspec
import pytest

from testbed.drive.endpoint import Endpoint
from testbed.journal.events import LegEnded
from testbed.journal.reader import load_journal
from testbed.router.serve import main
from testbed.spec.routing import EngineAt, RouterConfig
from testbed.stub.process import RunningStub, running_stub
from tests.contract_engine import drive_forced

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def running_router(folder: Path, config: RouterConfig) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """A router process with its file in `folder`, ended with the block."""
    path = folder / "router.json"
    path.write_bytes(msgspec.json.encode(config))
    command = [sys.executable, "-m", "testbed.router.serve", "--config", str(path)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert url.startswith("http://127.0.0.1:")
        yield url, process
    finally:
        process.terminate()
        process.communicate(timeout=20)


def ask(url: str, *, timeout_s: float = 20.0) -> httpx.Response:
    body = {"model": "stub", "prompt": [1, 2, 3], "max_tokens": 2}
    return httpx.post(f"{url}/v1/completions", json=body, timeout=timeout_s, trust_env=False, verify=False)


@pytest.fixture(scope="module")
def stub() -> Iterator[RunningStub]:
    with running_stub("--ttft-ms", "5", "--itl-ms", "1") as one:
        yield one


def test_a_router_keeps_the_contract_of_the_engine_behind_it_and_what_it_breaks_off_has_its_end_in_the_journal(
    tmp_path: Path, stub: RunningStub
) -> None:
    engines = [EngineAt(name="e0", url=stub.base_url)]
    config = RouterConfig(engines=engines, model="stub", journal=str(tmp_path / "router" / "events"))
    with running_router(tmp_path, config) as (url, process):
        drive_forced(Endpoint(url, "stub"), range(100, 140), tmp_path / "client")
        body = {"model": "stub", "prompt": [1], "max_tokens": 60_000, "stream": True}
        with httpx.stream("POST", f"{url}/v1/completions", json=body, timeout=20, verify=False) as answer:
            pieces = answer.iter_raw()
            assert next(pieces)
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0
    *legs, last = load_journal(tmp_path / "router").select(LegEnded)
    assert sorted(leg.request_id for leg in legs) == ["contract.0", "contract.1", "contract.2"]
    assert [leg.outcome for leg in legs] == ["ok"] * 3
    assert sorted(leg.usage_output_tokens for leg in legs if leg.usage_output_tokens is not None) == [1, 2, 7]
    assert last.reason == "cancelled/router_stopped"


def test_an_engine_that_is_frozen_or_dead_is_said_and_serves_again_when_it_is_started_at_its_port(
    tmp_path: Path, stub: RunningStub
) -> None:
    with running_stub("--ttft-ms", "5") as victim:
        engines = [EngineAt(name="victim", url=victim.base_url), EngineAt(name="good", url=stub.base_url)]
        config = RouterConfig(
            engines=engines, model="stub", policy="round_robin", alive_s=0.3, avoid_after_failure_s=0.0
        )
        with running_router(tmp_path, config) as (url, _):
            victim.process.send_signal(signal.SIGSTOP)
            frozen, good = ask(url), ask(url)
            victim.process.kill()
            victim.process.wait(20)
            dead, again = ask(url), ask(url)
            with running_stub("--ttft-ms", "5", "--port", victim.base_url.rpartition(":")[2]):
                assert [ask(url).status_code for _ in range(4)] == [200] * 4
    assert [good.status_code, again.status_code] == [200, 200]
    assert (frozen.status_code, frozen.json()["error"]["reason"]) == (504, "timed_out/not_alive")
    assert (dead.status_code, dead.json()["error"]["reason"]) == (502, "failed/connect")


@pytest.mark.parametrize(("content", "said"), [(b"{}", "is not a file for the router"), (None, "can't be read")])
def test_a_file_that_is_wrong_ends_it_with_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | None, said: str
) -> None:
    path = tmp_path / "router.json"
    if content is not None:
        path.write_bytes(content)
    assert main(["--config", str(path)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {path}: ")
    assert said in error


def test_a_port_that_is_taken_is_said(tmp_path: Path, stub: RunningStub, capsys: pytest.CaptureFixture[str]) -> None:
    config = RouterConfig(
        engines=[EngineAt(name="e0", url=stub.base_url)], model="m", port=int(stub.base_url.rpartition(":")[2])
    )
    (tmp_path / "router.json").write_bytes(msgspec.json.encode(config))
    assert main(["--config", str(tmp_path / "router.json")]) == 3
    assert "can't listen" in capsys.readouterr().err
