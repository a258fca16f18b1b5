"""Paths of one machine, registry hosts, bad shape, and unlisted skips are seen."""

import json
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


SKIPPED = "import pytest\ndef test_a(): pass\ndef test_b(): pytest.skip('no GPU')\n"


def pytest_run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    """Run pytest with our plugin on what the test has made, in this process."""
    plugins = ("tests.conftest", "no:cacheprovider", "no:asyncio")
    return pytester.runpytest_inprocess(*(f"-p{plugin}" for plugin in plugins), *arguments)


def test_a_skip_that_is_not_listed_fails_the_run(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_x=SKIPPED)
    ended = pytest_run(pytester)
    assert ended.ret == 1
    ended.stdout.fnmatch_lines("*not listed in tests/skips.txt: test_x.py::test_b: Skipped: no GPU")


def test_a_skip_in_a_worker_fails_the_run(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_x=SKIPPED)
    # The worker is another process, which starts in the folder of the test and must find the plugin.
    pytester.makeini(f"[pytest]\npythonpath = {ROOT}\n")
    ended = pytest_run(pytester, "-n", "1")
    assert ended.ret == 1
    ended.stdout.fnmatch_lines("*not listed in tests/skips.txt: test_x.py::test_b: Skipped: no GPU")


def test_a_module_that_skips_itself_fails_the_run(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_x="import pytest\npytest.skip('no GPU', allow_module_level=True)\n", test_y="def test_a(): pass\n"
    )
    assert pytest_run(pytester).ret == 1


def test_without_skips_the_run_is_right(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_x="def test_a(): pass\n")
    assert pytest_run(pytester).ret == 0
