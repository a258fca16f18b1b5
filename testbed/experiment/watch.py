"""What the targets of faults show while an arm runs: the journal as it grows, and the engine's own log."""

import re
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from testbed.clock import now_ns
from testbed.journal.events import Event, FaultApplied, KvLoadEnded, KvLookup, RequestEnded
from testbed.journal.reader import Follower

_FAILURE = re.compile(
    r"(?:Recovered from KV load failure: (\d+) request\(s\)|Failing (\d+) request\(s\) due to KV load failure)"
    r".*?(\d+) tokens affected"
)
_NEAR_NS = 3_000_000_000


@dataclass(frozen=True)
class LogLine:
    """A load failure as the engine's log tells it, and when the line was first seen here."""

    requests: int
    tokens: int
    seen_at_ns: int

    def tells_of(self, tokens: int) -> bool:
        """Whether one of its requests may have lost so many tokens: the line gives the sum of all of them."""
        return self.tokens == tokens if self.requests == 1 else self.tokens > tokens


class EngineLog:
    """Follows one log file from its present end on."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = path.stat().st_size if path.exists() else 0
        self.failures: list[LogLine] = []

    def look(self) -> None:
        """Read what has come since."""
        if not self._path.exists():
            return
        with self._path.open("rb") as log:
            log.seek(self._offset)
            content = log.read()
        whole = content.rfind(b"\n") + 1
        self._offset += whole
        for line in content[:whole].decode(errors="replace").splitlines():
            if match := _FAILURE.search(line):
                self.failures.append(LogLine(int(match[1] or match[2]), int(match[3]), now_ns()))

    def take_failure(self, at_ns: int, tokens: int) -> bool:
        """Whether a failure of so many tokens was logged within 3 s after `at_ns`; a line serves one request."""
        near = [one for one in self.failures if one.tells_of(tokens) and 0 <= one.seen_at_ns - at_ns <= _NEAR_NS]
        if not near:
            return False
        line = min(near, key=lambda one: one.seen_at_ns)
        if line.requests == 1:
            self.failures.remove(line)
        return True


class Watch:
    """Events of one arm by request, as they come in."""

    def __init__(self, folder: Path, arm: str, repetition: int) -> None:
        self._follower = Follower(folder)
        self._part = (arm, repetition)
        self._lock = threading.Lock()
        self._applied: list[FaultApplied] = []
        self.load_ends: dict[str, KvLoadEnded] = {}
        self.lookups: dict[str, KvLookup] = {}
        self.ended: dict[str, RequestEnded] = {}

    def look(self) -> None:
        """Take in what has been written since."""
        with self._lock:
            self._take(event for event in self._follower.fresh() if (event.arm, event.repetition) == self._part)

    def _take(self, events: Iterable[Event]) -> None:
        for event in events:
            if isinstance(event, FaultApplied):
                self._applied.append(event)
            elif isinstance(event, KvLoadEnded):
                self.load_ends.setdefault(event.request_id, event)
            elif isinstance(event, KvLookup):
                self.lookups.setdefault(event.request_id, event)
            elif isinstance(event, RequestEnded):
                self.ended[event.request_id] = event

    def struck(self, fault: str) -> list[str]:
        """Requests that `fault` was applied to, in order."""
        with self._lock:
            return [event.request_id for event in self._applied if event.fault == fault and event.phase == "began"]
