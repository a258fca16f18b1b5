"""`python -m bench.router.load`: the client of the bench, a process of its own that does as little as possible.

It counts an answer as whole by its last bytes, and reads nothing in between: what a proxy adds is then seen, not what a
client takes. In a closed loop each connection sends again at once; with a rate requests leave on an absolute schedule,
and one that finds no free connection is counted as not sent.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import cast
from urllib.parse import urlsplit

import uvloop

from testbed.clock import now_s

LAST = b"data: [DONE]\n\n"
PROMPT_TOKENS = 300
DRAIN_LIMIT_S = 5.0


@dataclass(frozen=True)
class Measured:
    """Of one run. Units: ms; `first_ms` is from the request to the first event of its answer, not to its head."""

    seconds: float
    whole: int
    broken: int
    not_sent: int
    first_ms: list[float]


class Wire(asyncio.Protocol):
    """One connection with at most one request on it."""

    def __init__(self, message: bytes, on_whole: "Callable[[Wire], None]") -> None:
        self.first_s: list[float] = []
        self.is_lost = False
        self._message = message
        self._on_whole = on_whole
        self._transport: asyncio.Transport | None = None
        self._sent_at_s = 0.0
        self._waits = False
        self._tail = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        self._transport = cast(asyncio.Transport, transport)

    def send(self) -> None:
        """One request."""
        self._sent_at_s, self._waits, self._tail = now_s(), True, b""
        if self._transport is not None:
            self._transport.write(self._message)

    def data_received(self, data: bytes) -> None:
        """Called by the loop."""
        if self._waits and b"data:" in data:
            self.first_s.append(now_s() - self._sent_at_s)
            self._waits = False
        self._tail = (self._tail + data)[-64:]
        if self._tail.endswith(b"0\r\n\r\n") and LAST in self._tail:
            self._tail = b""
            self._on_whole(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop."""
        self.is_lost = True


class Run:
    """One run against one address."""

    def __init__(self, seconds: float) -> None:
        self._until_s = now_s() + seconds
        self._seconds = seconds
        self._whole = 0
        self._not_sent = 0
        self._free: list[Wire] = []

    def _again(self, wire: Wire) -> None:
        self._whole += 1
        if now_s() < self._until_s:
            wire.send()

    def _rest(self, wire: Wire) -> None:
        self._whole += 1
        self._free.append(wire)

    async def closed(self, url: str, connections: int) -> Measured:
        """Each connection sends again as soon as its answer is whole."""
        wires = await self._connect(url, connections, self._again)
        for wire in wires:
            wire.send()
        await self._pause(self._seconds)
        return self._result(wires)

    async def paced(self, url: str, connections: int, rate: float) -> Measured:
        """Requests leave at absolute times, over whatever connection is free."""
        wires = await self._connect(url, connections, self._rest)
        self._free = list(wires)
        began_s = now_s()
        count = round(self._seconds * rate)
        for number in range(count):
            await self._pause(began_s + number / rate - now_s())
            if self._free:
                self._free.pop().send()
            else:
                self._not_sent += 1
        waits_until_s = now_s() + DRAIN_LIMIT_S
        while self._whole < count - self._not_sent and now_s() < waits_until_s:
            await self._pause(0.02)
        return self._result(wires)

    async def _connect(self, url: str, connections: int, on_whole: Callable[[Wire], None]) -> list[Wire]:
        netloc, loop = urlsplit(url).netloc, asyncio.get_running_loop()
        host, _, port = netloc.partition(":")
        message = request(netloc)
        made = [
            await loop.create_connection(lambda: Wire(message, on_whole), host, int(port))
            for _ in range(connections)
        ]
        self._until_s = now_s() + self._seconds
        return [wire for _, wire in made]

    async def _pause(self, seconds: float) -> None:
        if seconds > 0:
            await asyncio.wait([asyncio.get_running_loop().create_future()], timeout=seconds)

    def _result(self, wires: list[Wire]) -> Measured:
        first_ms = [second * 1e3 for wire in wires for second in wire.first_s]
        broken = sum(wire.is_lost for wire in wires)
        return Measured(self._seconds, self._whole, broken, self._not_sent, first_ms)


def request(host: str) -> bytes:
    """A streaming completion of 8 tokens."""
    body = json.dumps({
        "model": "stub", "prompt": list(range(100, 100 + PROMPT_TOKENS)), "max_tokens": 8, "stream": True,
        "temperature": 0,
    }).encode()
    head = (
        f"POST /v1/completions HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        f"X-Request-Id: bench.router.0.1\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def _measure(asked: argparse.Namespace) -> Measured:
    run = Run(asked.seconds)
    if asked.rate is None:
        return await run.closed(asked.url, asked.connections)
    return await run.paced(asked.url, asked.connections, asked.rate)


def main(arguments: list[str]) -> None:
    """Measure once, and print what was found as JSON."""
    parser = argparse.ArgumentParser(prog="python -m bench.router.load", description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--connections", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--rate", type=float, help="requests a second; without it a closed loop")
    asked = parser.parse_args(arguments)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        print(json.dumps(asdict(runner.run(_measure(asked)))))


if __name__ == "__main__":
    main(sys.argv[1:])
