"""One wake-up at a time, by the system's timer and by the loop's."""

import asyncio

import pytest
import uvloop

from testbed.clock import now_ns
from testbed.drive.alarm import Alarm

LIMIT_S = 10.0
MS = 1_000_000


async def rung_after_ns(*times_ms: int | None) -> int:
    """Set an alarm to these times from now, one after the other; how much later it rang."""
    loop = asyncio.get_running_loop()
    rung = asyncio.Event()
    alarm = Alarm(loop, rung.set)
    began_ns = now_ns()
    for ms in times_ms:
        alarm.set(None if ms is None else began_ns + ms * MS)
    try:
        async with asyncio.timeout(LIMIT_S):
            await rung.wait()
    finally:
        alarm.close()
    return now_ns() - began_ns


@pytest.fixture(params=["the system's", "the loop's"])
def timers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "the loop's":
        monkeypatch.setattr("testbed.drive.alarm._timer_file", lambda system: None)


@pytest.mark.usefixtures("timers")
@pytest.mark.parametrize(
    ("times_ms", "least_ms"),
    [((20,), 19), ((5, 30), 29), ((9000, 20), 19), ((None, 10), 9), ((10, None, 20), 19), ((-1000,), 0)],
)
def test_it_rings_at_the_time_set_last(times_ms: tuple[int | None, ...], least_ms: int) -> None:
    # the loop's timers count in whole ms, and may ring up to one too early
    late_ns = asyncio.Runner(loop_factory=uvloop.new_event_loop).run(rung_after_ns(*times_ms))
    assert least_ms * MS <= late_ns < LIMIT_S * 1e9


@pytest.mark.usefixtures("timers")
def test_what_is_closed_or_set_to_never_does_not_ring() -> None:
    async def silent() -> int:
        loop = asyncio.get_running_loop()
        rings: list[int] = []
        first, second = Alarm(loop, lambda: rings.append(1)), Alarm(loop, lambda: rings.append(2))
        first.set(now_ns() + MS)
        second.set(now_ns() + MS)
        first.close()
        second.set(None)
        await rung_after_ns(20)
        second.close()
        return len(rings)

    assert asyncio.Runner(loop_factory=uvloop.new_event_loop).run(silent()) == 0
