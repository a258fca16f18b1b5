"""The judge of flags collects what a parser does not take; the parser here is a small one of the same kind."""

import argparse
import json

import pytest

from testbed.engines import judge
from testbed.engines.judge import Judged, flags_of_command, judge_commands, problems_of
from testbed.errors import SpecError

COMMAND = ("python", "-m", "vllm.entrypoints.openai.api_server", "--port", "1", "--model", "m")


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="engine")
    made.add_argument("--port", type=int)
    made.add_argument("--model")
    made.add_argument("--config", type=_strict)
    return made


def _strict(text: str) -> object:
    found = json.loads(text)
    if "bad" in found:
        raise ValueError("unknown key: bad")
    return found


def raises_plainly(flags: object) -> object:
    raise ValueError("1 validation error\n  bad\n    unexpected")


def test_only_what_stands_behind_the_module_is_judged() -> None:
    assert flags_of_command(COMMAND) == ["--port", "1", "--model", "m"]


def test_a_parser_that_exits_is_quoted_by_its_last_line() -> None:
    flags = {"good": ["--port", "1"], "typo": ["--prot", "1"], "text": ["--port", "one"]}
    assert problems_of(flags, parser().parse_args) == {
        "typo": "engine: error: unrecognized arguments: --prot 1",
        "text": "engine: error: argument --port: invalid int value: 'one'",
    }


def test_a_model_that_refuses_is_told_in_one_line() -> None:
    assert problems_of({"e": []}, raises_plainly) == {"e": "1 validation error bad unexpected"}


@pytest.fixture
def child(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the child process would be given; it answers as one that found a problem of `bad` alone."""
    given: list[str] = []

    def run_python(arguments: list[str], **named: object) -> str:
        given.append(arguments[-1])
        problems = {name: "not taken" for name in json.loads(arguments[-1]) if name == "bad"}
        return "a line of somebody else\n" + json.dumps({"version": "1.2", "problems": problems}) + "\n"

    monkeypatch.setattr(judge, "run_python", run_python)
    return given


def test_the_version_of_the_judge_is_told_where_all_is_well(child: list[str]) -> None:
    assert judge_commands({"engine-0": COMMAND}, print) == "1.2"
    assert json.loads(child[0]) == {"engine-0": ["--port", "1", "--model", "m"]}


def test_flags_that_are_not_taken_are_an_error_of_the_file(child: list[str]) -> None:
    with pytest.raises(SpecError, match="bad: not taken") as raised:
        judge_commands({"engine-0": COMMAND, "bad": COMMAND}, print)
    assert "vLLM 1.2" in str(raised.value)


def test_a_judgement_is_one_line_of_json(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge, "_vllm", lambda: ("1.2", parser()))
    judge.main(json.dumps({"e": ["--nope"]}))
    assert json.loads(capsys.readouterr().out)["problems"] == {"e": "engine: error: unrecognized arguments: --nope"}
    assert Judged("1", {}).problems == {}
