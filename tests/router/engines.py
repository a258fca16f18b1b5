"""Engines that a test scripts, in its own event loop: what came to them is kept, and they notice who hangs up."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, cast

Script = Callable[["Post"], Awaitable[None]]

STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
DONE = b"data: [DONE]\n\n"
LIMIT_S = 10.0


@dataclass
class Post:
    """One request as it came, and the way to answer it. `gone` is set when the other side hangs up."""

    method: str
    path: str
    headers: dict[str, str]
    text: bytes
    transport: asyncio.Transport
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def body(self) -> dict[str, Any]:
        return dict(json.loads(self.text))

    def answer(self, content: Any, status: int = 200) -> None:
        """A whole JSON answer."""
        body = json.dumps(content).encode()
        head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        self.transport.write(head.encode() + body)

    def begin_stream(self) -> None:
        self.transport.write(STREAM_HEAD)

    def send(self, data: bytes) -> None:
        """One HTTP chunk of a stream."""
        self.transport.write(b"%x\r\n%b\r\n" % (len(data), data))

    def end_stream(self) -> None:
        self.transport.write(b"0\r\n\r\n")

    def stream(self, *pieces: bytes) -> None:
        """A whole stream, a chunk each."""
        self.begin_stream()
        for piece in pieces:
            self.send(piece)
        self.end_stream()

    async def hung_up(self) -> None:
        """Wait until the other side has closed the connection."""
        await asyncio.wait_for(self.gone.wait(), LIMIT_S)


class FakeEngine:
    """Listens on a port of loopback, and gives each request to `script`."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.posts: list[Post] = []
        self.connections: list[asyncio.Transport] = []
        self.tasks: set[asyncio.Future[None]] = set()
        self.port = 0
        self._arrived = asyncio.Condition()
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self, port: int = 0) -> "FakeEngine":
        self._server = await asyncio.get_running_loop().create_server(lambda: _Wire(self), "127.0.0.1", port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def stop(self) -> None:
        """As a process that is killed: nobody listens, and every connection is cut."""
        if self._server is not None:
            self._server.close()
        for transport in self.connections:
            transport.abort()
        for task in list(self.tasks):
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    async def take(self, post: Post) -> None:
        async with self._arrived:
            self.posts.append(post)
            self._arrived.notify_all()
        await self.script(post)

    async def post(self, number: int) -> Post:
        """The request with this number, from 1, once it has come."""
        async with self._arrived:
            await asyncio.wait_for(self._arrived.wait_for(lambda: len(self.posts) >= number), LIMIT_S)
        return self.posts[number - 1]


class _Wire(asyncio.Protocol):
    def __init__(self, engine: FakeEngine) -> None:
        self._engine = engine
        self._transport: asyncio.Transport | None = None
        self._read = b""
        self._posts: list[Post] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._engine.connections.append(self._transport)

    def data_received(self, data: bytes) -> None:
        self._read += data
        head, blank, rest = self._read.partition(b"\r\n\r\n")
        if not blank or self._transport is None:
            return
        line, *lines = head.decode().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (one.partition(":") for one in lines)}
        length = int(headers.get("content-length", "0"))
        if len(rest) < length:
            return
        self._read = rest[length:]
        method, path, _ = line.split()
        post = Post(method, path, headers, rest[:length], self._transport)
        self._posts.append(post)
        task = asyncio.ensure_future(self._engine.take(post))
        self._engine.tasks.add(task)
        task.add_done_callback(self._engine.tasks.discard)

    def connection_lost(self, exc: Exception | None) -> None:
        for post in self._posts:
            post.gone.set()


def token_event(text: str) -> bytes:
    """One event with one token."""
    return b"data: " + json.dumps({"choices": [{"index": 0, "text": text, "finish_reason": None}]}).encode() + b"\n\n"


async def hang(post: Post) -> None:
    """Never answer."""


async def three_tokens(post: Post) -> None:
    """A short stream."""
    post.stream(token_event("a"), token_event("b"), token_event("c"), DONE)
