"""`make setup` does what is not done, once, and stops in one line."""

import sys
from pathlib import Path

import pytest

from tools import install
from tools.install import SetupError, Step, run_steps
from tools.pip_settings import parse_settings, uv_sources


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """An environment of its own, and the list that steps write to."""
    monkeypatch.setattr(install, "ROOT", tmp_path)
    monkeypatch.setattr(install, "STAMPS", tmp_path / "stamps.json")
    monkeypatch.setattr(install, "PYTHON", Path(sys.executable))
    (tmp_path / "lock.txt").write_text("a==1\n")
    return []


def test_a_second_run_does_nothing(done: list[str]) -> None:
    steps = [Step("one", ("lock.txt",), lambda: done.append("one")), Step("two", (), lambda: done.append("two"))]
    run_steps(steps)
    run_steps(steps)
    assert done == ["one", "two"]


def test_a_changed_lock_is_installed_again(done: list[str], tmp_path: Path) -> None:
    steps = [Step("one", ("lock.txt",), lambda: done.append("one")), Step("two", (), lambda: done.append("two"))]
    run_steps(steps)
    (tmp_path / "lock.txt").write_text("a==2\n")
    run_steps(steps)
    assert done == ["one", "two", "one"]


def test_a_moved_environment_is_made_again(
    done: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = [Step("one", ("lock.txt",), lambda: done.append("one"))]
    run_steps(steps)
    monkeypatch.setattr(install, "VENV", tmp_path / "elsewhere")
    run_steps(steps)
    assert done == ["one", "one"]


def test_what_came_before_a_failed_step_is_kept(done: list[str]) -> None:
    def fail() -> None:
        raise SetupError("no network")

    one = Step("one", (), lambda: done.append("one"))
    with pytest.raises(SetupError):
        run_steps([one, Step("two", (), fail)])
    run_steps([one, Step("two", (), lambda: done.append("two"))])
    assert done == ["one", "two"]


def test_the_wrong_python_is_refused_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 12, 1))
    assert install.main() == 3
    assert capsys.readouterr().err.startswith("error: the locks are for Python 3.11, this is ")


def test_bytecode_is_written_whatever_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    assert "PYTHONDONTWRITEBYTECODE" not in install.environment()


def test_the_environment_of_pip_wins_over_its_files() -> None:
    listed = ":env:.find-links='a b'\nglobal.find-links='c'\nglobal.index-url='https://mirror.example/simple'\n"
    settings = parse_settings(listed)
    assert settings == {"find-links": "a b", "index-url": "https://mirror.example/simple"}
    assert uv_sources(settings) == [
        "--find-links", "a", "--find-links", "b", "--index-url", "https://mirror.example/simple",
    ]
    assert uv_sources(parse_settings("")) == []


def test_the_locks_are_pins_alone_and_share_none() -> None:
    folder = Path(__file__).parent.parent.parent / "requirements"
    cpu, dev = ((folder / name).read_text().split() for name in ("cpu.lock.txt", "dev.lock.txt"))
    assert all(line.count("==") == 1 and "/" not in line and "@" not in line for line in [*cpu, *dev])
    assert not {line.partition("==")[0] for line in cpu} & {line.partition("==")[0] for line in dev}
    assert "torch==2.13.0+cpu" in cpu
