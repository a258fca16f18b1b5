"""Where a load stands while it is on: a few lines that redraw on a terminal, else a plain line now and then.

The drive calls from its own loop, so a call that draws nothing returns at once, and one that draws takes about a
millisecond, at most twice a second.
"""

import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from testbed.cli.talk import talk
from testbed.clock import now_s
from testbed.drive.result import Progress
from testbed.missing import Missing
from testbed.report.wording import figure_number, number

RATE_OVER_S = 5.0
"""Rates are told of the last seconds, for a mean since the beginning hides what happens now."""
DRAW_EVERY_S = 0.5
LINE_EVERY_S = 5.0

Moment = tuple[float, Progress]
"""Seconds of the clock, and where the drive stood then."""


@dataclass(frozen=True)
class Standing:
    """One look at a drive. Rates are of the last `RATE_OVER_S`; `left_s` is an estimate of the time until all ended.

    `asked_rps` is None in a closed loop, where answers set the pace.
    """

    progress: Progress
    asked_rps: float | Missing | None
    sent_rps: float | Missing
    ended_rps: float | Missing
    left_s: float | Missing


def standing(history: Sequence[Moment], *, elapsed_s: float, schedule_s: float | None) -> Standing:
    """What the last moments of a drive tell. `schedule_s` is when the last request is due, None in a closed loop."""
    now, progress = history[-1]
    first, before = next(moment for moment in history if moment[0] >= now - RATE_OVER_S)

    def rate(count: int, earlier: int) -> float | Missing:
        return (count - earlier) / (now - first) if now > first else Missing("only just begun")

    ended_rps = rate(progress.ended, before.ended)
    if schedule_s is not None:
        left_s: float | Missing = max(0.0, schedule_s - elapsed_s)
    elif isinstance(ended_rps, Missing) or ended_rps == 0:
        left_s = Missing("nothing has ended of late")
    else:
        left_s = (progress.planned - progress.ended) / ended_rps
    asked_rps = None if schedule_s is None else rate(progress.asked, before.asked)
    return Standing(progress, asked_rps, rate(progress.sent, before.sent), ended_rps, left_s)


def line(now: Standing) -> str:
    """All of it in one line."""
    return f"{_counts(now)}; {_rates(now)}; {_outcomes(now)}; {_first_token(now)}; {_left(now)}"


def block(now: Standing, title: str, width: int = 40) -> str:
    """The same in a few lines, with a bar for what has ended."""
    done = round(width * now.progress.ended / max(1, now.progress.planned))
    bar = "█" * done + "░" * (width - done)
    return "\n".join((
        title, f"  {bar} {_left(now)}", f"  requests  {_counts(now)}", f"  rate      {_rates(now)}",
        f"  outcomes  {_outcomes(now)}", f"  first     {_first_token(now)}",
    ))


def _counts(now: Standing) -> str:
    progress = now.progress
    return f"{progress.sent} of {progress.planned} sent, {progress.in_flight} in flight"


def _rates(now: Standing) -> str:
    asked = "closed loop" if now.asked_rps is None else f"asked {_short(now.asked_rps)}/s"
    return f"{asked}, sent {_short(now.sent_rps)}/s, ended {_short(now.ended_rps)}/s"


def _outcomes(now: Standing) -> str:
    told = [f"{count} {name}" for name, count in now.progress.counts.items() if count]
    return ", ".join(told) if told else "none ended yet"


def _first_token(now: Standing) -> str:
    p50 = now.progress.ttft_p50_s
    return f"TTFT p50 {'?' if isinstance(p50, Missing) else number(p50, 's')}"


def _left(now: Standing) -> str:
    if isinstance(now.left_s, Missing):
        return "time left unknown"
    return f"about {now.left_s:.0f} s left" if now.left_s > 0 else "all were due; waiting for answers"


def _short(rate: float | Missing) -> str:
    return "?" if isinstance(rate, Missing) else figure_number(rate)


class LiveView:
    """Takes each progress of a drive and shows some: `show` gets what is to be seen, at most every `every_s`."""

    def __init__(self, show: Callable[[Standing], None], schedule_s: float | None, every_s: float) -> None:
        self._show = show
        self._schedule_s = schedule_s
        self._every_s = every_s
        self._zero_s = self._shown_s = now_s()
        self._history: deque[Moment] = deque()

    def began(self, zero_at_ns: int) -> None:
        """The schedule's zero, which lies a little ahead."""
        self._zero_s = zero_at_ns / 1e9

    def __call__(self, progress: Progress) -> None:
        """The drive stands at `progress` now."""
        at_s = now_s()
        self._history.append((at_s, progress))
        while self._history[0][0] < at_s - 2 * RATE_OVER_S:
            self._history.popleft()
        if at_s - self._shown_s >= self._every_s:
            self._shown_s = at_s
            self._show(standing(self._history, elapsed_s=at_s - self._zero_s, schedule_s=self._schedule_s))


@contextmanager
def live_view(title: str, schedule_s: float | None) -> Iterator[LiveView]:
    """Within it, a view on stderr: it redraws itself on a terminal, and says a line each few seconds elsewhere."""
    if not sys.stderr.isatty():
        yield LiveView(lambda now: talk(line(now)), schedule_s, LINE_EVERY_S)
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    with Live(console=Console(stderr=True), auto_refresh=False, transient=True) as shown:
        def show(now: Standing) -> None:
            shown.update(Text(block(now, title)), refresh=True)

        yield LiveView(show, schedule_s, DRAW_EVERY_S)
