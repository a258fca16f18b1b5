"""A run that its user breaks off: the right exit code, what was measured is kept, and nothing is left running."""

import signal
from collections.abc import Callable

import pytest

from testbed.journal.events import ArmBegan, RequestEnded, RequestPlanned
from testbed.journal.run import open_run
from tests.engine_all.home import Home, Running

pytestmark = pytest.mark.timeout(900)
MID_DRIVE = r"first: \d+ of \d+ sent"
END_LIMIT_S = 120.0


def broken_off(home: Home, pattern: str, wish: Callable[[Running], None]) -> tuple[int, Running]:
    """Begin the small run, break it off once it has said `pattern`, and see that nothing is left."""
    with home.start("testbed run small") as run:
        run.hear(pattern)
        snapshot = home.snapshot()
        assert snapshot.left(home.state), "something runs now"
        wish(run)
        code = run.end(END_LIMIT_S)
    assert home.left_at_last(snapshot) == []
    return code, run


def once(signum: signal.Signals) -> Callable[[Running], None]:
    return lambda run: run.process.send_signal(signum)


def twice(run: Running) -> None:
    run.process.send_signal(signal.SIGINT)
    run.hear("ending")
    run.process.send_signal(signal.SIGINT)


def test_ctrl_c_in_mid_drive_keeps_what_was_measured_and_begins_no_other_arm(home: Home) -> None:
    before = home.runs()
    code, run = broken_off(home, MID_DRIVE, once(signal.SIGINT))
    assert code == 130, "".join(run.heard)
    [folder] = home.runs() - before
    opened = open_run(folder)
    assert opened.manifest.status == "interrupted"
    assert {one.arm for one in opened.journal.select(ArmBegan)} == {"first"}
    planned, ended = opened.journal.select(RequestPlanned), opened.journal.select(RequestEnded)
    assert {one.request_id for one in planned} == {one.request_id for one in ended}
    outcomes = {one.outcome for one in ended}
    assert {"ok", "not_sent"} <= outcomes
    assert outcomes <= {"ok", "cancelled", "not_sent"}
    assert opened.manifest.left_behind == []
    assert (folder / "report.html").is_file()
    assert home.run(f"testbed report {folder}", 60.0).returncode == 4


def test_a_second_ctrl_c_breaks_off_at_once_and_leaves_nothing_either(home: Home) -> None:
    before = home.runs()
    code, run = broken_off(home, MID_DRIVE, twice)
    assert code == 130, "".join(run.heard)
    [folder] = home.runs() - before
    assert open_run(folder).manifest.status == "interrupted"


def test_ctrl_c_before_the_engine_is_ready_leaves_nothing(home: Home) -> None:
    code, run = broken_off(home, "engine-0: starting", once(signal.SIGINT))
    assert code == 130, "".join(run.heard)


def test_a_run_that_is_terminated_says_so_and_leaves_nothing(home: Home) -> None:
    before = home.runs()
    code, run = broken_off(home, MID_DRIVE, once(signal.SIGTERM))
    assert code == 143, "".join(run.heard)
    [folder] = home.runs() - before
    assert open_run(folder).manifest.status == "interrupted"
