"""What the view of a load in progress says, from progress that is made up."""

import pytest

from testbed.cli.live import Moment, block, line, live_view, standing
from testbed.drive.outcome import KINDS
from testbed.drive.result import Progress
from testbed.missing import Missing


def progress(asked: int, sent: int, ended: int, **counts: int) -> Progress:
    """A drive of 100 requests."""
    return Progress(
        planned=100, asked=asked, sent=sent, ended=ended, in_flight=sent - ended,
        counts={**dict.fromkeys(KINDS, 0), **counts}, ttft_p50_s=0.0421,
    )


# Two a second are asked; for two seconds the client keeps up, then it falls behind.
HISTORY: list[Moment] = [
    (10.0, progress(0, 0, 0)),
    (12.0, progress(4, 4, 2, ok=2)),
    (16.0, progress(12, 8, 7, ok=6, failed=1)),
]


def test_rates_are_those_of_the_last_five_seconds() -> None:
    now = standing(HISTORY, elapsed_s=6.0, schedule_s=50.0)
    # from 12 s to 16 s: 8 asked, 4 sent, 5 ended
    assert (now.asked_rps, now.sent_rps, now.ended_rps) == (2.0, 1.0, 1.25)
    assert now.left_s == 44.0


def test_a_closed_loop_tells_the_time_left_by_what_ends() -> None:
    now = standing(HISTORY, elapsed_s=6.0, schedule_s=None)
    # 93 requests are left at 1.25 a second
    assert now.left_s == pytest.approx(74.4)
    assert "closed loop, sent 1/s, ended 1.25/s" in line(now)
    idle = standing([(1.0, progress(4, 4, 2)), (3.0, progress(4, 4, 2))], elapsed_s=3.0, schedule_s=None)
    assert isinstance(idle.left_s, Missing)
    assert "time left unknown" in line(idle)


def test_at_the_first_look_there_is_no_rate_yet() -> None:
    now = standing(HISTORY[:1], elapsed_s=0.0, schedule_s=50.0)
    assert isinstance(now.sent_rps, Missing)
    assert "asked ?/s, sent ?/s, ended ?/s" in line(now)
    assert "none ended yet" in line(now)


def test_a_line_has_all_that_a_block_has() -> None:
    now = standing(HISTORY, elapsed_s=6.0, schedule_s=50.0)
    told = (
        "8 of 100 sent, 1 in flight", "asked 2/s, sent 1/s, ended 1.25/s", "6 ok, 1 failed", "TTFT p50 42.1 ms",
        "about 44 s left",
    )
    for one in told:
        assert one in line(now)
        assert one in block(now, "load mixed")
    assert "\n" not in line(now)


def test_the_bar_fills_with_what_has_ended() -> None:
    shown = block(standing([(1.0, progress(60, 60, 50, ok=50))], elapsed_s=1.0, schedule_s=0.0), "load", width=10)
    assert "█████░░░░░ all were due; waiting for answers" in shown


def test_without_a_terminal_plain_lines_come_and_not_too_many(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([100.0, 101.0, 104.9, 105.0, 106.0, 110.1])
    monkeypatch.setattr("testbed.cli.live.now_s", lambda: next(clock))
    with live_view("load mixed", 50.0) as view:
        view.began(round(100.0 * 1e9))
        for _ in range(5):
            view(progress(8, 8, 7, ok=7))
    said = capsys.readouterr().err.splitlines()
    # made at 100 s, so due at 105 s and 110 s
    assert len(said) == 2
    assert "about 45 s left" in said[0]
    assert "about 40 s left" in said[1]
