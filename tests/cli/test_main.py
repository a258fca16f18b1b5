"""The command line turns what happened into an exit code, and tells it in one place."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from testbed import __version__

ROOT = Path(__file__).parent.parent.parent
FAKE = [sys.executable, "-m", "tests.cli.fake_verbs"]
REAL = [sys.executable, "-m", "testbed"]
LIMIT_S = 30


def call(*command: str) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end."""
    plain = {**os.environ, "TERM": "dumb", "COLUMNS": "100"}
    return subprocess.run(command, cwd=ROOT, env=plain, capture_output=True, text=True, timeout=LIMIT_S, check=False)


@pytest.mark.parametrize(
    ("verb", "code", "told"),
    [
        ("good", 0, ""),
        ("failed-check", 1, ""),
        ("wrong-file", 2, "error: t.yaml:3: tier.kind is missing\nhint: add it\n"),
        ("small-machine", 3, "error: port 80 is busy\n"),
        ("broken-run", 4, "error: the engine ended\n"),
    ],
)
def test_each_outcome_has_its_exit_code_and_no_traceback(verb: str, code: int, told: str) -> None:
    ended = call(*FAKE, verb)
    assert (ended.returncode, ended.stderr) == (code, told)


def test_our_own_bug_is_the_only_traceback() -> None:
    ended = call(*FAKE, "bug")
    assert ended.returncode == 70
    assert "Traceback" in ended.stderr
    assert "ZeroDivisionError: our own\nthis is a bug in testbed" in ended.stderr


@pytest.mark.parametrize("arguments", [["nosuchverb"], ["good", "--nosuchflag"], ["--nosuchflag"], ["bug", "extra"]])
def test_wrong_flags_and_verbs_are_told_with_a_hint(arguments: list[str]) -> None:
    ended = call(*FAKE, *arguments)
    assert ended.returncode == 2
    assert ended.stderr.startswith("error: ")
    assert "\nhint: testbed --help" in ended.stderr
    assert ended.stdout == ""


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_lets_the_verb_clean_up(signum: signal.Signals, code: int) -> None:
    with subprocess.Popen([*FAKE, "wait"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as verb:
        assert verb.stdout is not None
        assert verb.stdout.readline() == "waiting\n"
        verb.send_signal(signum)
        rest, told = verb.communicate(timeout=LIMIT_S)
    assert (verb.returncode, rest) == (code, "cleaned up\n")
    assert "Traceback" not in told


def test_a_reader_that_leaves_is_no_failed_check() -> None:
    with subprocess.Popen([*FAKE, "talk"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as verb:
        assert verb.stdout is not None
        assert verb.stderr is not None
        assert verb.stdout.readline() == "a line of output\n"
        verb.stdout.close()
        told = verb.stderr.read()
        assert verb.wait(LIMIT_S) == 141
    assert told == ""


def test_the_help_shows_the_verbs_in_their_groups() -> None:
    shown = call(*FAKE, "--help").stdout
    places = [shown.index(word) for word in ("deployment", "wait", "experiment", "good", "result", "theory", "bug")]
    assert places == sorted(places)


def test_no_verb_shows_the_help() -> None:
    ended = call(*FAKE)
    assert ended.returncode == 2
    assert "wait" in ended.stdout
    assert ended.stderr == ""


def test_the_version_is_told() -> None:
    assert call(*REAL, "--version").stdout == f"testbed {__version__}\n"


def test_the_help_loads_nothing_heavy() -> None:
    script = (
        "import sys; from testbed.cli.main import VERBS, build_app; build_app(VERBS); "
        "print(sorted({'aiohttp', 'matplotlib', 'numpy', 'pydantic', 'ray', 'torch', 'vllm'} & sys.modules.keys()))"
    )
    assert call(sys.executable, "-c", script).stdout == "[]\n"


def test_the_help_costs_less_than_half_a_second() -> None:
    # Processor time, for the machine is shared; the best of three, for the first one may compile bytecode.
    costs = []
    for _ in range(3):
        child = subprocess.Popen([*REAL, "--help"], cwd=ROOT, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        costs.append(usage.ru_utime + usage.ru_stime)
        assert child.returncode == 0
    assert min(costs) < 0.5
