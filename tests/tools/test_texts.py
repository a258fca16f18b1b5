"""Paths of one machine, registry hosts, bad shape, and unlisted skips are seen."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tools import measure
from tools.check_text import findings

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.parametrize(
    "text",
    [
        "see /" + "work/main/x.py", "HOME=/" + "root", 'open("/' + 'home/alice/x")', "/opt" + "/wheels",
        "https://py" + "pi.org/simple", "files.python" + "hosted.org",
    ],
)
def test_what_belongs_to_one_machine_is_seen(text: str) -> None:
    assert len(list(findings("a.md", f"fine\n{text}\n"))) == 1
    assert next(findings("a.md", f"fine\n{text}\n")).startswith("a.md:2: ")


@pytest.mark.parametrize(
    "text", ["a/work/b", "https://example.org/root", "/home/someone/x", "/tmp/x", "/dev/shm/x", "work"]
)
def test_what_any_machine_may_have_is_let_through(text: str) -> None:
    assert list(findings("a.md", text)) == []


@pytest.mark.parametrize(
    ("text", "figure"),
    [
        ("try:\n    f()\nexcept:\n    g()\n", "bare_except"),
        ("try:\n    f()\nexcept OSError:\n    pass\n", "swallowed_except"),
        ("x = y or 0\n", "or_zero"),
        ("x = y.get(k, 0)\n", "get_zero"),
        ("class JobManager:\n    pass\n", "vague_classes"),
        ("names = []\n", "mutable_globals"),
        ("import time\ntime.sleep(1)\n", "sleep_calls"),
    ],
)
def test_each_smell_breaks_its_limit(text: str, figure: str, tmp_path: Path) -> None:
    (tmp_path / "limits.json").write_text(json.dumps({figure: 0}))
    (tmp_path / "code.py").write_text(text)
    command = ["--check", str(tmp_path / "limits.json"), str(tmp_path / "code.py")]
    assert measure.main(command) == 1
    (tmp_path / "code.py").write_text('"""Nothing wrong."""\n')
    assert measure.main(command) == 0


def pytest_run(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run pytest on a folder with our plugin."""
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-c", "/dev/null", "--rootdir", str(folder)]
    return subprocess.run(
        [*command, *arguments, str(folder)], cwd=ROOT, capture_output=True, text=True, timeout=50, check=False
    )


SKIPPED = "import pytest\ndef test_a(): pass\ndef test_b(): pytest.skip('no GPU')\n"


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_skip_that_is_not_listed_fails_the_run(workers: str, tmp_path: Path) -> None:
    (tmp_path / "test_x.py").write_text(SKIPPED)
    ended = pytest_run(tmp_path, "-n", workers)
    assert ended.returncode == 1
    assert "not listed in tests/skips.txt: test_x.py::test_b: Skipped: no GPU" in ended.stdout


def test_a_module_that_skips_itself_fails_the_run(tmp_path: Path) -> None:
    (tmp_path / "test_x.py").write_text("import pytest\npytest.skip('no GPU', allow_module_level=True)\n")
    (tmp_path / "test_y.py").write_text("def test_a(): pass\n")
    assert pytest_run(tmp_path).returncode == 1


def test_without_skips_the_run_is_right(tmp_path: Path) -> None:
    (tmp_path / "test_x.py").write_text("def test_a(): pass\n")
    assert pytest_run(tmp_path).returncode == 0
