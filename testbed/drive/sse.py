"""Server-sent events from bytes that arrive in any pieces.

Works on bytes throughout, so that a piece may end inside a character. Follows the WHATWG event-stream rules: lines end
with LF, CR or CRLF; comment lines and all fields but data are ignored; an event without its blank line is not one.
What servers mostly send, whole events of one data line each, takes a short way with the same result.
"""

import re

from testbed.errors import RunError

LINE_LIMIT_BYTES = 16 * 2**20
"""More than the ids of a million-token prompt; beyond it a server is sending something else."""

_LINE_END = re.compile(rb"\r\n|\n|\r")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_DATA = b"data: "


class SseError(RunError):
    """The stream is not one of events that can be held in memory."""


class SseParser:
    """Feed it what the socket gives; it returns the data of each event that is now complete, lines joined by newlines.

    Raises: SseError when a line or an event is longer than `line_limit_bytes`.
    """

    __slots__ = ("_after_cr", "_at_start", "_data", "_data_bytes", "_limit_bytes", "_rest")

    def __init__(self, line_limit_bytes: int = LINE_LIMIT_BYTES) -> None:
        self._limit_bytes = line_limit_bytes
        self._rest = bytearray()
        self._after_cr = False
        self._at_start = True
        self._data: list[bytes] = []
        self._data_bytes = 0

    def feed(self, piece: bytes) -> list[bytes]:
        """The events completed by `piece`, in order."""
        if self._at_start and piece and not self._rest and not piece.startswith(_BYTE_ORDER_MARK[:1]):
            self._at_start = False
        if piece.startswith(_DATA) and not (self._rest or self._data or self._after_cr or self._at_start):
            events = _plain_events(piece)
            if events is not None and len(piece) <= self._limit_bytes:
                return events
        return self._events_of(piece)

    def _events_of(self, piece: bytes) -> list[bytes]:
        if piece:
            rest_of_crlf = self._after_cr and piece.startswith(b"\n")
            self._after_cr = False
            piece = piece[1:] if rest_of_crlf else piece
        events: list[bytes] = []
        for line in self._complete_lines(piece):
            self._take(line, events)
        return events

    def _complete_lines(self, piece: bytes) -> list[bytes]:
        """Cut the lines that have ended off the rest. A CR at the very end may be the first half of CRLF."""
        *lines, rest = _LINE_END.split(piece)
        if lines:
            lines[0] = bytes(self._rest) + lines[0]
            self._after_cr = piece.endswith(b"\r")
            self._rest = bytearray(rest)
        else:
            self._rest += rest
        if len(self._rest) > self._limit_bytes or any(len(line) > self._limit_bytes for line in lines):
            raise SseError(f"a line of the event stream is longer than {self._limit_bytes} bytes")
        return lines

    def _take(self, line: bytes, events: list[bytes]) -> None:
        if self._at_start:
            self._at_start = False
            line = line.removeprefix(_BYTE_ORDER_MARK)
        if not line:
            self._dispatch(events)
            return
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._add_data(value)

    def _add_data(self, value: bytes) -> None:
        self._data_bytes += len(value) + 1
        if self._data_bytes > self._limit_bytes + 1:
            raise SseError(f"an event of the stream is longer than {self._limit_bytes} bytes")
        self._data.append(value)

    def _dispatch(self, events: list[bytes]) -> None:
        if self._data:
            events.append(b"\n".join(self._data))
        self._data, self._data_bytes = [], 0


def _plain_events(piece: bytes) -> list[bytes] | None:
    """The events of a piece that has nothing but whole events of one data line each; None of any other."""
    events = piece[len(_DATA) : -2].split(b"\n\n" + _DATA)
    is_plain = piece.endswith(b"\n\n") and piece.count(b"\n") == 2 * len(events) and b"\r" not in piece
    return events if is_plain else None
