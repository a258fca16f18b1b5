"""`testbed trace stats`: a table for a reader, JSON for a program, and the line of what is wrong."""

import json
from pathlib import Path

import pytest

from testbed.cli.main import VERBS, run

TRACES = Path(__file__).parents[1] / "fixtures" / "traces"


def test_the_figures_of_a_trace_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(VERBS, ("trace", "stats", str(TRACES / "mooncake_excerpt.jsonl"), "--capacity", "2560")) == 0
    shown = capsys.readouterr().out
    assert "mooncake_excerpt.jsonl: 4 requests (mooncake)" in shown
    # blocks 4 + 2 + 6 + 6 = 18; distinct 0, three, one, five and one new
    assert "18 blocks, 11 of them distinct" in shown
    # a cache of 5 blocks: [0] lies 4 deep, then 2 deep; then 0 and the four after it lie 6, 5, 4, 3, 2 deep
    assert ["2,560", "5", "2", "11.11%", "28.57%", "0"] in [line.split() for line in shown.splitlines()]


def test_the_json_is_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(VERBS, ("trace", "stats", str(TRACES / "azure_excerpt.csv"), "--json")) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["format"], found["requests"], found["input_tokens"]["max"]) == ("azure", 4, 7433)
    assert found["missing"]["reuse"] == "the file does not say what prompts share"


def test_a_warning_goes_to_the_talk_and_the_unit_is_a_flag(capsys: pytest.CaptureFixture[str]) -> None:
    path = str(TRACES / "T02_mooncake_looks_like_seconds.jsonl")
    assert run(VERBS, ("trace", "stats", path, "--json")) == 0
    told = capsys.readouterr()
    assert "warning: time stamps read as ms" in told.err
    assert len(json.loads(told.out)["warnings"]) == 1
    assert run(VERBS, ("trace", "stats", path, "--json", "--unit", "s")) == 0
    told = capsys.readouterr()
    assert told.err == ""
    assert json.loads(told.out)["rate"]["span_s"] == 0.4


def test_bad_rows_are_an_error_with_their_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(VERBS, ("trace", "stats", str(TRACES / "T03_mooncake_hash_length_mismatch.jsonl"))) == 2
    said = capsys.readouterr().err
    assert "mismatch.jsonl:2: 20 tokens need 1 id" in said
    assert "mismatch.jsonl:3: 1100 tokens need 3 ids" in said
    assert "Traceback" not in said


def test_a_format_may_be_given(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(VERBS, ("trace", "stats", str(TRACES / "azure_excerpt.csv"), "--format", "mooncake")) == 2
    assert "azure_excerpt.csv:1: is not a request" in capsys.readouterr().err
