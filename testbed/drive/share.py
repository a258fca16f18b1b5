"""What one client process sends: its share of the schedule, with all bodies encoded, in two files.

One file has a line for each request in order of time, the other the bodies one after another. So everything that takes
time is done before the run, and no more of it is in memory than what is due soon. The files have no name and end with
who holds them.
"""

import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO

import msgspec

from testbed.errors import DeployError, RunError
from testbed.workload.request import PlannedRequest

Encode = Callable[[PlannedRequest], bytes]


class Item(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One request as a client process needs it.

    `at_ns` counts from the zero. `followers` requests are due after the end of this one. The body is at `body_at` of
    the other file.
    """

    request_id: str
    index: int
    at_ns: int
    timeout_ns: int
    after: int | None
    think_ns: int
    followers: int
    leaves_after_tokens: int | None
    body_at: int
    body_bytes: int


class Share:
    """The two files of one share, open for reading."""

    def __init__(self, items: IO[bytes], bodies: IO[bytes], count: int) -> None:
        self._items = items
        self._bodies = bodies
        self.count = count

    @property
    def files(self) -> tuple[int, int]:
        """The descriptors of items and bodies, for a process that inherits them."""
        return self._items.fileno(), self._bodies.fileno()

    def items(self) -> Iterator[Item]:
        """All requests in order of time, read as they are asked for."""
        self._items.seek(0)
        decode = msgspec.json.Decoder(Item).decode
        for line in self._items:
            yield decode(line)

    def body(self, item: Item) -> bytes:
        """The body of one request.

        Raises: RunError if the file does not have all of it.
        """
        body = os.pread(self._bodies.fileno(), item.body_bytes, item.body_at)
        if len(body) != item.body_bytes:
            raise RunError(f"the body of {item.request_id} is not whole: {len(body)} of {item.body_bytes} bytes")
        return body


@contextmanager
def open_share(items: str, bodies: str, count: int) -> Iterator[Share]:
    """The share in two files of these names, such as /dev/fd/3.

    Raises: RunError if they can't be opened.
    """
    try:
        with open(items, "rb") as item_file, open(bodies, "rb") as body_file:
            yield Share(item_file, body_file, count)
    except FileNotFoundError as problem:
        raise RunError("a share of the schedule is not there", where=problem.filename) from problem


def split(requests: Sequence[PlannedRequest], workers: int) -> list[list[PlannedRequest]]:
    """One list for each worker, in the order of `requests`: by index, and whatever follows a request stays with it.

    Raises: RunError if a request follows one that is not planned, or is not earlier.
    """
    first: dict[int, int] = {}
    for request in sorted(requests, key=lambda one: one.index):
        if request.after is not None and request.after not in first:
            raise RunError(f"request {request.index} follows {request.after}, which is no earlier request of the plan")
        first[request.index] = request.index if request.after is None else first[request.after]
    shares: list[list[PlannedRequest]] = [[] for _ in range(workers)]
    for request in requests:
        shares[first[request.index] % workers].append(request)
    return shares


@contextmanager
def written_share(
    requests: Sequence[PlannedRequest], request_id: Callable[[PlannedRequest], str], encode: Encode
) -> Iterator[Share]:
    """The share of `requests`, which are in order of time, in files of the temporary folder.

    Raises: DeployError if there is no room for them.
    """
    with tempfile.TemporaryFile() as items, tempfile.TemporaryFile() as bodies:
        try:
            _write(requests, request_id, encode, (items, bodies))
        except OSError as problem:
            raise DeployError(
                f"the encoded requests do not fit into {tempfile.gettempdir()}: {problem.strerror}",
                hint="make room, or name another folder in TMPDIR",
            ) from problem
        yield Share(items, bodies, len(requests))


def _write(
    requests: Sequence[PlannedRequest], request_id: Callable[[PlannedRequest], str], encode: Encode,
    files: tuple[IO[bytes], IO[bytes]],
) -> None:
    items, bodies = files
    followers = Counter(request.after for request in requests)
    body_at = 0
    for request in requests:
        body = encode(request)
        bodies.write(body)
        items.write(
            msgspec.json.encode(_item(request, request_id(request), followers[request.index], body_at, len(body)))
        )
        items.write(b"\n")
        body_at += len(body)
    items.flush()
    bodies.flush()


def _item(request: PlannedRequest, request_id: str, followers: int, body_at: int, body_bytes: int) -> Item:
    return Item(
        request_id=request_id, index=request.index, at_ns=round(request.scheduled_at_s * 1e9),
        timeout_ns=round(request.timeout_s * 1e9), after=request.after, think_ns=round(request.think_s * 1e9),
        followers=followers, leaves_after_tokens=request.leaves_after_tokens, body_at=body_at, body_bytes=body_bytes,
    )
