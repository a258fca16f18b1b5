"""How fast Python moves bytes through TCP on loopback: the path of what a tier fetches from a service."""

import os
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from testbed import clock
from testbed.calibrate.rates import Way
from testbed.errors import RunError

LOOPBACK_TCP = "loopback_tcp"
TRIES = 12
_MIB = 1 << 20
_SIZE_BYTES = 64 * _MIB
_CHUNKS = (256 * 1024, _MIB, 4 * _MIB)
_LIMIT_S = 30.0


def loopback_ways(size_bytes: int = _SIZE_BYTES, tries: int = TRIES, chunks: Sequence[int] = _CHUNKS) -> list[Way]:
    """Time `size_bytes` over one connection, and over one per core, received in pieces of each chunk size.

    Raises: RunError if a connection ends early.
    """
    counts = sorted({1, len(os.sched_getaffinity(0))})
    return [_way(size_bytes, tries, chunk, streams) for chunk in chunks for streams in counts]


def _way(size_bytes: int, tries: int, chunk: int, streams: int) -> Way:
    share = size_bytes // streams
    content = memoryview(bytes(share))
    with ExitStack() as stack:
        pairs = [_connected(stack) for _ in range(streams)]
        executor = stack.enter_context(ThreadPoolExecutor(2 * streams))
        tries_s = []
        for _ in range(tries + 1):  # the first opens the windows and is not counted
            began_s = clock.now_s()
            jobs = [executor.submit(_receive, receiver, share, chunk) for _, receiver in pairs]
            jobs += [executor.submit(sender.sendall, content) for sender, _ in pairs]
            for job in jobs:
                job.result()
            tries_s.append(clock.now_s() - began_s)
    label = f"{size_bytes / _MIB:.0f} MiB in pieces of {chunk // 1024} KiB over {streams} connection"
    return Way(label + ("s" if streams > 1 else ""), share * streams, tuple(tries_s[1:]))


def _connected(stack: ExitStack) -> tuple[socket.socket, socket.socket]:
    """Both ends of a TCP connection, closed with `stack`."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        sender = stack.enter_context(socket.create_connection(server.getsockname(), timeout=_LIMIT_S))
        receiver = stack.enter_context(server.accept()[0])
    receiver.settimeout(_LIMIT_S)
    return sender, receiver


def _receive(receiver: socket.socket, wanted: int, chunk: int) -> None:
    buffer = memoryview(bytearray(chunk))
    left = wanted
    while left:
        got = receiver.recv_into(buffer, min(chunk, left))
        if not got:
            raise RunError(f"a connection on loopback ended {left} bytes early")
        left -= got
