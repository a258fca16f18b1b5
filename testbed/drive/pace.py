"""How a client process keeps time, in numbers that can be put together with those of other processes."""

from array import array
from collections import deque

import msgspec

from testbed.clock import cpu_s
from testbed.drive.outcome import Kind, Outcome

BEAT_S = 0.01
"""How often the loop looks at the clock to see by how much it was held up."""
STALL_LIMIT_S = 0.005
"""A beat that comes later than this is a stall of the loop."""
RECENT = 200
"""So many last answers tell the TTFT of the moment."""


class Standing(msgspec.Struct, frozen=True, tag="standing"):
    """Where one client process stands; `ttfts_s` are those of its last answers, from the scheduled time."""

    sent: int
    ended: int
    in_flight: int
    counts: dict[Kind, int]
    ttfts_s: list[float]


class Tally(msgspec.Struct, frozen=True, tag="tally"):
    """What one client process did. `lags_s` are the bytes of an array of doubles, one for each request sent."""

    counts: dict[Kind, int]
    lags_s: bytes
    stall_max_s: float
    stall_count: int
    peak_open: int
    client_cpu_s: float
    interrupted: bool


class Pace:
    """Counts and measures while a drive is on; a few bytes for each request."""

    def __init__(self, zero_at_ns: int) -> None:
        self._zero_at_ns = zero_at_ns
        self._zero_cpu_s: float | None = None
        self._next_beat_ns: int | None = None
        self._counts: dict[Kind, int] = {}
        self._ended = 0
        self._lags_s = array("d")
        self._ttfts_s: deque[float] = deque(maxlen=RECENT)
        self._stall_max_s = 0.0
        self._stall_count = 0

    def sent(self, scheduled_at_ns: int, sent_at_ns: int) -> None:
        """The first byte of a request went out."""
        self._lags_s.append((sent_at_ns - scheduled_at_ns) / 1e9)

    def ended(self, scheduled_at_ns: int, outcome: Outcome) -> None:
        """A request has its outcome."""
        self._ended += 1
        self._counts[outcome.kind] = self._counts[outcome.kind] + 1 if outcome.kind in self._counts else 1
        first_at_ns = outcome.answer.first_token_at_ns
        if first_at_ns is not None:
            self._ttfts_s.append((first_at_ns - scheduled_at_ns) / 1e9)

    def beat(self, now_ns: int) -> None:
        """The loop looks at the clock; it wanted to some time after the last look."""
        if self._next_beat_ns is not None:
            late_s = (now_ns - self._next_beat_ns) / 1e9
            self._stall_max_s = max(self._stall_max_s, late_s)
            self._stall_count += late_s > STALL_LIMIT_S
        self._next_beat_ns = now_ns + round(BEAT_S * 1e9)
        if self._zero_cpu_s is None and now_ns >= self._zero_at_ns:
            self._zero_cpu_s = cpu_s()

    def standing(self, in_flight: int) -> Standing:
        """The numbers of this moment."""
        return Standing(len(self._lags_s), self._ended, in_flight, dict(self._counts), list(self._ttfts_s))

    def tally(self, peak_open: int, *, interrupted: bool) -> Tally:
        """The numbers of the whole drive, which ends now."""
        return Tally(
            counts=self._counts, lags_s=self._lags_s.tobytes(), stall_max_s=self._stall_max_s,
            stall_count=self._stall_count, peak_open=peak_open,
            client_cpu_s=0.0 if self._zero_cpu_s is None else cpu_s() - self._zero_cpu_s, interrupted=interrupted,
        )
