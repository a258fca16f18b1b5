"""A server in a thread of the test that answers each request as the test says: bytes, pauses, and ways to misbehave."""

import asyncio
import json
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import uvloop

from testbed.clock import now_ns, sleep_async_s

Step = bytes | float | threading.Event | Literal["close", "reset", "hang"]
"""Bytes are sent, a number is a pause in seconds, an event is waited for."""
LOOK_S = 0.005


@dataclass
class Post:
    """One request as the server saw it, with the stamps of what it sent."""

    request_id: str
    path: str
    headers: dict[str, str]
    raw_body: bytes
    received_at_ns: int
    sent_at_ns: list[int] = field(default_factory=list)
    is_gone: bool = False

    @property
    def body(self) -> dict[str, Any]:
        """The JSON of the body."""
        return dict(json.loads(self.raw_body))


Answer = Callable[[Post], Sequence[Step]]


@dataclass
class Scripted:
    """A server that listens at `base_url`; `connections` counts how often somebody connected."""

    base_url: str
    posts: list[Post] = field(default_factory=list)
    connections: int = 0

    def by_id(self) -> dict[str, Post]:
        """The posts by their request id."""
        return {post.request_id: post for post in self.posts}


@contextmanager
def serving(answer: Answer, tls: ssl.SSLContext | None = None) -> Iterator[Scripted]:
    """Serve on a free port of loopback for the time of the block."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    server = Scripted(f"{'https' if tls else 'http'}://127.0.0.1:{listener.getsockname()[1]}")
    loop = uvloop.new_event_loop()
    ended = asyncio.Event()
    serve = _serve(server, answer, listener, tls, ended)
    thread = threading.Thread(target=loop.run_until_complete, args=(serve,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join(10)
        loop.close()


async def _serve(
    server: Scripted, answer: Answer, listener: socket.socket, tls: ssl.SSLContext | None, ended: asyncio.Event
) -> None:
    handlers: set[asyncio.Task[None]] = set()
    writers: list[asyncio.StreamWriter] = []

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server.connections += 1
        writers.append(writer)
        task = asyncio.get_running_loop().create_task(_connection(server, answer, reader, writer))
        handlers.add(task)
        task.add_done_callback(handlers.discard)

    listening = await asyncio.start_server(connected, sock=listener, ssl=tls)
    await ended.wait()
    listening.close()
    # Those that are just being accepted become connections.
    await sleep_async_s(0)
    for task in list(handlers):
        task.cancel()
    await asyncio.gather(*handlers, return_exceptions=True)
    for writer in writers:
        writer.transport.abort()
    await asyncio.gather(*(writer.wait_closed() for writer in writers), return_exceptions=True)


async def _connection(
    server: Scripted, answer: Answer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    try:
        while True:
            post = await _read_post(reader)
            server.posts.append(post)
            try:
                if not await _answer(post, answer(post), writer, reader):
                    return
            except ConnectionError:
                post.is_gone = True
                return
    except (asyncio.IncompleteReadError, ConnectionError):
        return
    finally:
        writer.close()


async def _answer(
    post: Post, steps: Sequence[Step], writer: asyncio.StreamWriter, reader: asyncio.StreamReader
) -> bool:
    """Whether the connection stays open."""
    for step in steps:
        if isinstance(step, bytes):
            post.sent_at_ns.append(now_ns())
            writer.write(step)
            await writer.drain()
        elif isinstance(step, float):
            await sleep_async_s(step)
        elif isinstance(step, threading.Event):
            while not step.is_set():
                await sleep_async_s(LOOK_S)
        elif step == "hang":
            post.is_gone = not await reader.read(1)
            return False
        else:
            if step == "reset":
                raw = writer.get_extra_info("socket")
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return False
    return True


async def _read_post(reader: asyncio.StreamReader) -> Post:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    line, *rest = head.strip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (one.partition(":") for one in rest)}
    body = await reader.readexactly(int(headers["content-length"]))
    return Post(headers["x-request-id"], line.split()[1], headers, body, now_ns())


SSE_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


def chunked(data: bytes) -> bytes:
    """One chunk of HTTP."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def event(content: dict[str, Any] | str) -> bytes:
    """One event in one chunk of HTTP."""
    text = content if isinstance(content, str) else json.dumps(content)
    return chunked(b"data: " + text.encode() + b"\n\n")


def token(*ids: int, finish: str | None = None) -> bytes:
    """The event that brings these tokens."""
    text = "".join(f" {one}" for one in ids)
    return event({"choices": [{"index": 0, "text": text, "token_ids": list(ids), "finish_reason": finish}]})


def usage(prompt: int, output: int) -> bytes:
    """The event at the end that counts."""
    return event({"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": output}})


DONE = event("[DONE]") + END


def whole(count: int = 2) -> bytes:
    """A whole good answer of so many tokens, one event each, in one piece."""
    tokens = b"".join(token(one, finish="length" if one == count - 1 else None) for one in range(count))
    return SSE_HEAD + tokens + usage(3, count) + DONE


def plain(status: int, body: dict[str, Any]) -> bytes:
    """A whole answer that is no stream."""
    content = json.dumps(body).encode()
    head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    return head.encode() + content
