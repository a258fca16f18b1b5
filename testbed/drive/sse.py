"""Server-sent events from bytes that arrive in any pieces.

Works on bytes throughout, so that a piece may end inside a character. Follows the WHATWG event-stream rules: lines end
with LF, CR or CRLF; comment lines and unknown fields are ignored; an event without its blank line is not one.
"""

import re
from dataclasses import dataclass

from testbed.errors import RunError

LINE_LIMIT_BYTES = 16 * 2**20
"""More than the ids of a million-token prompt; beyond it a server is sending something else."""

_LINE_END = re.compile(rb"\r\n|\n|\r")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class SseError(RunError):
    """The stream is not one of events that can be held in memory."""


@dataclass(frozen=True)
class SseEvent:
    """One event: its data lines joined by a newline, and its type if the server named one."""

    data: bytes
    event: bytes = b""


class SseParser:
    """Feed it what the socket gives; it returns the events that are now complete.

    Raises: SseError when a line or an event is longer than `line_limit_bytes`.
    """

    def __init__(self, line_limit_bytes: int = LINE_LIMIT_BYTES) -> None:
        self._limit_bytes = line_limit_bytes
        self._rest = bytearray()
        self._after_cr = False
        self._at_start = True
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._event = b""

    def feed(self, piece: bytes) -> list[SseEvent]:
        """The events completed by `piece`, in order."""
        if self._after_cr and piece[:1] == b"\n":
            piece = piece[1:]
        if piece:
            self._after_cr = False
        self._rest += piece
        events: list[SseEvent] = []
        for line in self._complete_lines():
            event = self._take(line)
            if event is not None:
                events.append(event)
        return events

    def _complete_lines(self) -> list[bytes]:
        """Cut the lines that have ended off the rest. A CR at the very end may be the first half of CRLF."""
        *lines, rest = _LINE_END.split(bytes(self._rest)) if _LINE_END.search(self._rest) else [self._rest]
        if lines:
            self._after_cr = self._rest.endswith(b"\r")
            self._rest = bytearray(rest)
        if len(self._rest) > self._limit_bytes or any(len(line) > self._limit_bytes for line in lines):
            raise SseError(f"a line of the event stream is longer than {self._limit_bytes} bytes")
        return [bytes(line) for line in lines]

    def _take(self, line: bytes) -> SseEvent | None:
        if self._at_start:
            self._at_start = False
            line = line.removeprefix(_BYTE_ORDER_MARK)
        if not line:
            return self._dispatch()
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._add_data(value)
        elif name == b"event":
            self._event = value
        return None

    def _add_data(self, value: bytes) -> None:
        self._data_bytes += len(value) + 1
        if self._data_bytes > self._limit_bytes + 1:
            raise SseError(f"an event of the stream is longer than {self._limit_bytes} bytes")
        self._data.append(value)

    def _dispatch(self) -> SseEvent | None:
        event = SseEvent(b"\n".join(self._data), self._event) if self._data else None
        self._data, self._data_bytes, self._event = [], 0, b""
        return event
