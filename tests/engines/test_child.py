"""Child processes: what they say comes back, and nothing of them stays."""

import subprocess
import sys
from pathlib import Path

import pytest

from testbed import clock
from testbed.engines.child import end_group, group_pids, run_python, tail
from testbed.engines.lock import held
from testbed.errors import DeployError

# A leader with a child that heeds no SIGTERM; it prints both pids, then waits for ever.
STUBBORN = """
import os, signal, subprocess, sys
code = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); signal.pause()"
child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
signal.pause()
"""


def quiet(text: str) -> None:
    """Nobody listens."""


def alive(pid: int) -> bool:
    """Whether the process runs; a zombie that nobody has reaped does not."""
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def test_what_a_child_prints_comes_back() -> None:
    assert run_python(["-c", "print('hello')"], what="a greeting", talk=quiet, limit_s=20) == "hello\n"


def test_our_modules_can_be_imported_there() -> None:
    code = "import testbed.engines.serve as it; print(it.__name__)"
    assert run_python(["-c", code], what="an import", talk=quiet, limit_s=20) == "testbed.engines.serve\n"


def test_a_child_that_fails_says_why_in_its_last_words() -> None:
    with pytest.raises(DeployError, match=r"(?s)dividing failed with exit status 1.*ZeroDivisionError"):
        run_python(["-c", "1 / 0"], what="dividing", talk=quiet, limit_s=20)


def test_a_child_that_takes_too_long_is_ended_and_was_talked_about() -> None:
    said: list[str] = []
    with pytest.raises(DeployError, match="waiting took longer than 1 s"):
        run_python(
            ["-c", "import signal; signal.pause()"], what="waiting", talk=said.append, limit_s=1, talk_every_s=0.3,
        )
    assert said[0] == "waiting: 0 s so far"
    assert len(said) >= 2


def test_the_whole_group_is_ended_also_what_heeds_no_sigterm() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STUBBORN], stdout=subprocess.PIPE, start_new_session=True,
    ) as leader:
        assert leader.stdout is not None
        child = int(leader.stdout.readline())
        assert sorted(group_pids(leader.pid)) == sorted([leader.pid, child])
        end_group(leader, limit_s=1.0)
        assert group_pids(leader.pid) == []
        clock.wait_for(lambda: not alive(child), limit_s=5, what="the child to be gone")
        end_group(leader)  # again, to no effect


def test_a_lock_that_is_held_is_waited_for_only_so_long(tmp_path: Path) -> None:
    with (
        held(tmp_path / "lock", "at work", quiet),
        pytest.raises(DeployError, match=r"another process was still at work after 0\.3 s"),
        held(tmp_path / "lock", "at work", quiet, limit_s=0.3),
    ):
        pass
    with held(tmp_path / "lock", "at work", quiet, limit_s=0.3):
        pass


def test_the_tail_of_a_log_skips_empty_lines_and_progress_bars() -> None:
    assert tail("a\n\n10%\r90%\r\nb \n", lines=3) == "10%\n90%\nb"
