"""What the stand-in saw, in columns: a request costs some 150 bytes, so that a million of them fit.

`Ledger` is filled by the server. It travels as one message (`StubLog`), and `stamps_by_id` reads it at the other end.
"""

from array import array
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from testbed.stub.asked import Asked

ENDS = ("open", "served", "failed", "refused", "rejected", "hung", "cut", "reset", "error", "client_gone")
_NO_NUMBER = -1
_NOTHING_ASKED = (_NO_NUMBER, _NO_NUMBER, _NO_NUMBER, 0)


class StubLog(msgspec.Struct, frozen=True):
    """Columns of one entry a request, each the bytes of an array of 64-bit numbers; `sends` has all of them in a row.

    `first_sends` tells where those of a request begin; where a chunk was not sent there is a 0.
    """

    ids: list[str | None]
    begun_at_ns: bytes
    received_at_ns: bytes
    first_sends: bytes
    sends: bytes
    peak_open: int
    ended: dict[str, int]


@dataclass(frozen=True, slots=True)
class Stamps:
    """When the first and the last byte of a request came, and when each chunk of its tokens was sent."""

    begun_at_ns: int
    received_at_ns: int
    sent_at_ns: tuple[int, ...]


def encode_log(log: StubLog) -> bytes:
    """The log as it travels."""
    return msgspec.msgpack.encode(log)


def decode_log(content: bytes) -> StubLog:
    """The log as it was. Raises: msgspec.MsgspecError if it is none."""
    return msgspec.msgpack.decode(content, type=StubLog)


def stamps_by_id(log: StubLog) -> dict[str, Stamps]:
    """The stamps of each request that had an id; of those with the same one, the last."""
    return {name: stamps for name, stamps in zip(log.ids, all_stamps(log), strict=True) if name is not None}


def all_stamps(log: StubLog) -> Iterator[Stamps]:
    """The stamps of all requests, in the order in which they came."""
    begun, received, first, sends = map(_numbers, (log.begun_at_ns, log.received_at_ns, log.first_sends, log.sends))
    for row, start in enumerate(first):
        end = first[row + 1] if row + 1 < len(first) else len(sends)
        yield Stamps(begun[row], received[row], tuple(at_ns for at_ns in sends[start:end] if at_ns))


def _numbers(column: bytes) -> "array[int]":
    numbers = array("q")
    numbers.frombytes(column)
    return numbers


class Arrival(NamedTuple):
    """A POST as it came: when its first byte was there and when its last."""

    request_id: str | None
    begun_at_ns: int
    received_at_ns: int
    body: bytes


class Ledger:
    """One row for each POST, by its number from 1. `keep` is none, counts, all or bodies: each keeps more.

    Rows that are not kept still count: in `count`, `open` and `peak_open`, and with counts in how they ended.
    """

    def __init__(self, keep: str) -> None:
        self.count = 0
        self.open = 0
        self.peak_open = 0
        self._counts_ends = keep != "none"
        self._keeps_rows = keep in ("all", "bodies")
        self._keeps_bodies = keep == "bodies"
        self._ends: Counter[str] = Counter()
        self._ids: list[str | None] = []
        self._bodies: list[bytes] = []
        self._begun, self._received, self._first, self._sends = array("q"), array("q"), array("q"), array("q")
        self._asked = array("q")
        self._ended = bytearray()

    def begin(self, arrival: Arrival, asked: Asked | None, chunks: int) -> int:
        """Note a POST that will get so many chunks; return its number. `asked` is None where it could not be read."""
        self.count += 1
        self.open += 1
        self.peak_open = max(self.peak_open, self.open)
        if self._keeps_rows:
            self._ids.append(arrival.request_id)
            self._begun.append(arrival.begun_at_ns)
            self._received.append(arrival.received_at_ns)
            self._first.append(len(self._sends))
            self._sends.frombytes(bytes(self._sends.itemsize * chunks))
            self._asked.extend(_NOTHING_ASKED if asked is None else _numbers_asked(asked))
            self._ended.append(0)
        if self._keeps_bodies:
            self._bodies.append(arrival.body)
        return self.count

    def sent(self, number: int, chunk: int, at_ns: int) -> None:
        """Chunk `chunk` of request `number` was sent at `at_ns`."""
        if self._keeps_rows:
            self._sends[self._first[number - 1] + chunk] = at_ns

    def mark(self, number: int, ended: str) -> None:
        """Say how request `number` ended. It is open until `close`."""
        if self._counts_ends:
            self._ends[ended] += 1
        if self._keeps_rows:
            self._ended[number - 1] = ENDS.index(ended)

    def close(self) -> None:
        """A request is off the wire."""
        self.open -= 1

    def columns(self) -> StubLog:
        """All rows, to travel."""
        return StubLog(
            ids=self._ids, begun_at_ns=self._begun.tobytes(), received_at_ns=self._received.tobytes(),
            first_sends=self._first.tobytes(), sends=self._sends.tobytes(), peak_open=self.peak_open,
            ended=dict(self._ends),
        )

    def told(self) -> dict[str, Any]:
        """All rows as JSON has them, and the counts."""
        stamps = all_stamps(self.columns()) if self._keeps_rows else ()
        posts = [dict(self._post(row, one)) for row, one in enumerate(stamps)]
        return {"posts": posts, "peak_open": self.peak_open, "count": self.count, "ended": dict(self._ends)}

    def _post(self, row: int, stamps: Stamps) -> Mapping[str, Any]:
        prompt_tokens, max_tokens, min_tokens, ignore_eos = self._asked[4 * row : 4 * row + 4]
        body = {"body": msgspec.Raw(self._bodies[row])} if self._keeps_bodies else {}
        return {
            "number": row + 1, "request_id": self._ids[row], "begun_at_ns": stamps.begun_at_ns,
            "received_at_ns": stamps.received_at_ns, "prompt_tokens": _or_none(prompt_tokens),
            "max_tokens": _or_none(max_tokens), "min_tokens": _or_none(min_tokens), "ignore_eos": bool(ignore_eos),
            "sent_at_ns": stamps.sent_at_ns, "ended": ENDS[self._ended[row]], **body,
        }


def _numbers_asked(asked: Asked) -> tuple[int, int, int, int]:
    least = _NO_NUMBER if asked.min_tokens is None else asked.min_tokens
    return asked.prompt_tokens, asked.max_tokens, least, asked.ignore_eos


def _or_none(number: int) -> int | None:
    return None if number == _NO_NUMBER else number
