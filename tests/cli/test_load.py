"""`testbed load` from the command line, against the stand-in: what it prints, writes and ends with."""

import json
import os
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.cli.main import VERBS, run
from testbed.clock import wait_for
from testbed.journal.run import open_run
from testbed.report.content import Picture
from testbed.stub.process import RunningStub, running_stub
from tests.patience import be_patient

QUICK = ("--request-rate", "200", "--num-prompts", "20", "--isl", "20", "--osl", "3", "--seed", "4")


@pytest.fixture(scope="module")
def stub() -> Iterator[RunningStub]:
    with running_stub("--ttft-ms", "2", "--itl-ms", "1") as running:
        yield running


@pytest.fixture(scope="module")
def failing() -> Iterator[RunningStub]:
    """Answers the plain question, and from then on only every second request."""
    with running_stub("--ttft-ms", "1", "--itl-ms", "1", "--skip-posts", "1", "--fail-every", "2") as running:
        yield running


@pytest.fixture(scope="module")
def hanging() -> Iterator[RunningStub]:
    """Answers the plain question, and nothing else."""
    with running_stub("--skip-posts", "1", "--hang-every", "1") as running:
        yield running


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the user's own, caches in it, and a small corpus."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("testbed.experiment.prompts.SEEDED_TOKENS", 2_000)
    monkeypatch.setattr("testbed.experiment.loading.git_commit", lambda: None)
    be_patient(monkeypatch)
    return tmp_path


def only_run(place: Path) -> Path:
    (folder,) = (place / "results").iterdir()
    return folder


def test_a_load_prints_a_summary_and_writes_the_file_of_vllm_bench(
    stub: RunningStub, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("load", "--url", stub.base_url, *QUICK, "--goodput", "ttft:2000", "e2el:3000")
    assert run(VERBS, (*arguments, "--save-result", "--result-dir", "saved", "--label", "mine")) == 0
    said = capsys.readouterr()
    assert "20 planned = ok 20" in said.out
    assert "This was our own stand-in server" in said.out
    assert "goodput (outputs unchecked): 100.0% of the planned" in said.out
    assert "20 requests to http://127.0.0.1:" in said.err
    found = json.loads((only_run(place) / "bench.json").read_text())
    (copy,) = (place / "saved").iterdir()
    assert copy.name.startswith("mine-200.0qps-stub-")
    assert json.loads(copy.read_text()) == found
    assert (found["completed"], found["failed"], found["total_output_tokens"]) == (20, 0, 60)
    assert found["testbed"]["stub"] is True
    assert {one["status"] for one in found["testbed"]["checks"]} == {"PASS"}


def test_json_is_all_that_stands_on_stdout(stub: RunningStub, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(VERBS, ("load", "--url", stub.base_url, *QUICK, "--json", "--save-detailed")) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["ttfts"]) == found["num_prompts"] == 20


def undrawn(name: str, alt: str, caption: str, draw: object) -> Picture:
    """In place of a figure, which takes seconds."""
    return Picture(name, alt, caption, b"<svg/>", b"<svg/>")


def test_the_report_of_a_load_is_made_again_from_its_journal(
    stub: RunningStub, place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("testbed.report.document._picture", undrawn)
    assert run(VERBS, ("load", "--url", stub.base_url, *QUICK)) == 0
    capsys.readouterr()
    assert run(VERBS, ("report", str(only_run(place)))) == 0
    assert "20 planned = ok 20" in capsys.readouterr().out
    written = (only_run(place) / "report.md").read_text()
    assert "what the server did under it" in written
    assert "recomputed" not in written


def test_too_few_successes_are_no_result(
    failing: RunningStub, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(VERBS, ("load", "--url", failing.base_url, *QUICK)) == 4
    shown = capsys.readouterr().out
    assert shown.index("10 x failed/http_500") < shown.index("TTFT")
    assert "not valid: fewer than 90% of a class succeeded" in shown
    assert "10 of 20 failed: 10 x failed/http_500 (HTTP 500)" in shown


def test_a_server_that_is_not_there_leaves_no_run_behind(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert run(VERBS, ("load", "--url", f"127.0.0.1:{port}", *QUICK)) == 3
    assert len(capsys.readouterr().err.splitlines()) == 2
    assert not (place / "results").exists()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "give --request-rate 2, or --max-concurrency 4, or name a WORKLOAD"),
        (("--request-rate", "inf"), "give --max-concurrency N for a closed loop"),
        (("mixed", "--request-rate", "2"), "--request-rate and the workload mixed contradict each other"),
        (("--request-rate", "2", "--set", "duration=9s"), "--set: changes a WORKLOAD, and none is named"),
        (("mixd",), 'did you mean "mixed"?'),
        (("--request-rate", "2", "--on-interrupt", "wait"), "drop and drain are known"),
        (("--request-rate", "2", "--percentile-metrics", "ttft,tftt"), "'tftt' is not known"),
        (("--request-rate", "2", "--api-key-env", "sk-mine"), "there is no variable of this name"),
        (("--request-rate", "2", "--url", "http://me:hidden@h"), "has a name or a password in it"),
        (("--request-rate", "2", "--num-prompts", "many"), "'--num-prompts'"),
    ],
)
def test_a_mistake_is_told_in_two_lines_before_anything_is_asked(
    arguments: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(VERBS, ("load", *arguments)) == 2
    said = capsys.readouterr().err
    assert told in said
    assert len(said.splitlines()) <= 2
    assert "sk-mine" not in said
    assert "hidden" not in said


def test_ctrl_c_ends_in_order_with_130_and_the_journal_is_kept(
    hanging: RunningStub, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt() -> None:
        """As a user does, once requests are on their way; the first POST was the question."""
        wait_for(lambda: len(hanging.log()["posts"]) > 2, limit_s=20, what="requests", every_s=0.02)
        os.kill(os.getpid(), signal.SIGINT)

    user = threading.Thread(target=interrupt)
    user.start()
    code = run(VERBS, ("load", "--url", hanging.base_url, "--request-rate", "50", "--num-prompts", "250", "--isl", "5"))
    user.join()
    assert code == 130
    said = capsys.readouterr()
    assert "sending no more, dropping what is in flight" in said.err
    assert "not_sent/interrupted" in said.out
    assert "The load was interrupted, so it is not valid" in said.out
    assert open_run(only_run(place)).manifest.status == "interrupted"


def test_a_result_that_can_not_be_written_is_told(
    stub: RunningStub, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "taken").write_text("a file")
    assert run(VERBS, ("load", "--url", stub.base_url, *QUICK, "--result-dir", "taken")) == 3
    assert "taken" in capsys.readouterr().err
