"""The answer of an engine as bytes: whole events on their way through, and what the engine says of its own work."""

from dataclasses import dataclass

import msgspec

from testbed.errors import RunError

EVENT_LIMIT_BYTES = 16 * 2**20
"""More than an event with the ids of a million-token prompt; what is longer is no stream of events."""

_BLANK_LINES = (b"\n\n", b"\n\r\n", b"\r\r")
_LONGEST = 3


class AnswerTooLong(RunError):
    """More than can be held in memory for one answer."""


@dataclass(frozen=True)
class Usage:
    """Token counts as one engine gave them; None where it gave none."""

    prompt_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None


class WholeEvents:
    """Lets through what ends with an event, and keeps the rest back until its end has come."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, piece: bytes) -> bytes:
        """All bytes up to the end of the last event that is whole; empty if none has ended.

        Raises: AnswerTooLong when an event is longer than EVENT_LIMIT_BYTES.
        """
        if not self._held and piece.endswith(b"\n\n"):
            return piece
        searched = max(0, len(self._held) - _LONGEST)
        self._held += piece
        found = ((self._held.rfind(line, searched), len(line)) for line in _BLANK_LINES)
        end = max((at + length if at >= 0 else 0) for at, length in found)
        whole = bytes(self._held[:end])
        del self._held[:end]
        if len(self._held) > EVENT_LIMIT_BYTES:
            raise AnswerTooLong(f"an event of the stream is longer than {EVENT_LIMIT_BYTES} bytes")
        return whole


    def rest(self) -> bytes:
        """What has no end yet, when the stream has ended."""
        rest = bytes(self._held)
        self._held.clear()
        return rest


class _Details(msgspec.Struct, frozen=True):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct, frozen=True):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None


class _Said(msgspec.Struct, frozen=True):
    usage: _Usage | None = None


class _ErrorDetail(msgspec.Struct, frozen=True):
    message: str | None = None


class _Error(msgspec.Struct, frozen=True):
    error: _ErrorDetail | str | None = None
    message: str | None = None


def usage_of(answer: bytes) -> Usage:
    """The usage of an answer that is one JSON object."""
    if b'"usage"' not in answer:
        return Usage()
    try:
        said = msgspec.json.decode(answer, type=_Said).usage
    except msgspec.MsgspecError:
        return Usage()
    if said is None:
        return Usage()
    details = said.prompt_tokens_details
    return Usage(said.prompt_tokens, said.completion_tokens, details.cached_tokens if details else None)


def usage_of_stream(tail: bytes) -> Usage:
    """The usage of the last event in `tail` that has one."""
    if b'"usage"' not in tail:
        return Usage()
    for line in reversed(tail.splitlines()):
        if line.startswith(b"data:") and b'"usage"' in line:
            found = usage_of(line[len(b"data:"):])
            if found != Usage():
                return found
    return Usage()


def error_in_stream(tail: bytes) -> str | None:
    """The message of an error that stands as an event in `tail`, as an engine sends it after its 200."""
    if b'{"error"' not in tail:
        return None
    for line in reversed(tail.splitlines()):
        if line.startswith(b"data:") and line[len(b"data:"):].lstrip().startswith(b'{"error"'):
            return message_of(line[len(b"data:"):])
    return None


def message_of(body: bytes) -> str:
    """What an engine says in its JSON error, else the start of its text."""
    plain = body[:500].decode(errors="backslashreplace").strip()
    try:
        said = msgspec.json.decode(body, type=_Error)
    except msgspec.MsgspecError:
        return plain
    if isinstance(said.error, str):
        return said.error
    message = said.error.message if said.error is not None else said.message
    return message if message is not None else plain
