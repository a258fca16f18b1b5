"""What a user's mistakes get from the verbs: a line or two, and the right exit code. Nothing is started."""

import shutil
from pathlib import Path

import pytest

from testbed.cli.main import VERBS, run

ROOT = Path(__file__).parents[2]


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working tree of the user's own, with copies of the committed files."""
    for name in ("configs", "topologies"):
        shutil.copytree(ROOT / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def line_of(path: Path, text: str) -> int:
    return next(number for number, line in enumerate(path.read_text().splitlines(), start=1) if text in line)


@pytest.mark.parametrize("arguments", [("plan", "demoo"), ("run", "demoo")])
def test_an_unknown_experiment_gets_the_nearest_name(
    arguments: tuple[str, ...], tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(VERBS, arguments) == 2
    said = capsys.readouterr().err
    assert 'there is no configs/experiments file "demoo"' in said
    assert "demo" in said.splitlines()[-1]


def test_a_typo_in_a_key_is_told_with_its_line(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tree / "topologies" / "colocated.yaml"
    edit(path, "load_deadline", "load_deadlin")
    assert run(VERBS, ("plan", "demo")) == 2
    said = capsys.readouterr().err
    assert f"colocated.yaml:{line_of(path, 'load_deadlin')}" in said
    assert "load_deadline" in said
    assert "Traceback" not in said


def test_an_unknown_model_gets_the_known_ones(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit(tree / "topologies" / "colocated.yaml", "smollm2-135m", "smollm3")
    assert run(VERBS, ("plan", "demo")) == 2
    assert "smollm2-135m" in capsys.readouterr().err


def test_a_file_that_is_no_mapping_is_refused(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tree / "configs" / "slo" / "cpu.yaml").write_text("- a\n- b\n")
    assert run(VERBS, ("plan", "demo")) == 2
    assert "cpu.yaml:1" in capsys.readouterr().err


def test_a_setting_that_leads_nowhere_is_refused(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(VERBS, ("plan", "demo", "--set", "tier.memry=1GiB")) == 2
    assert 'did you mean "memory"?' in capsys.readouterr().err


def test_results_that_are_a_file_are_refused_before_anything_starts(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tree / "results").write_text("mine")
    assert run(VERBS, ("run", "demo")) == 2
    assert "is a file, not a folder for results" in capsys.readouterr().err


def test_an_unknown_topology_is_refused(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(VERBS, ("up", "colocate")) == 2
    assert "colocated" in capsys.readouterr().err


def test_a_folder_that_is_no_run_is_refused(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(VERBS, ("report", "configs")) == 2
    assert "is not a run" in capsys.readouterr().err


def test_down_without_a_name_says_what_there_is(
    tree: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tree / "state"))
    assert run(VERBS, ("down",)) == 2
    assert "There are: none" in capsys.readouterr().err
    assert run(VERBS, ("status",)) == 0
    assert capsys.readouterr().out == "nothing is deployed\n"
    assert run(VERBS, ("status", "--json")) == 0
    assert capsys.readouterr().out == "[]\n"
    assert run(VERBS, ("down", "never-there")) == 0


def test_metrics_lists_each_with_its_unit(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(VERBS, ("metrics",)) == 0
    assert "ttft_s [s] per request" in capsys.readouterr().out
