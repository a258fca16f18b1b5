"""`python -m testbed.stub.server`: a stand-in OpenAI completions server with known timing, in its own process.

For tests and for calibrating the client only: it runs no model, and a journal made with it must say so. Token i of an
answer leaves at TTFT + i x ITL after the request was received, on absolute times, so that no delay adds up. Answers
depend on the prompt alone. `GET /_log` tells what arrived and when each token was sent, on this host's monotonic clock.
"""

import asyncio
import json
import sys
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from testbed.clock import now_ns, sleep_async_s
from testbed.stub.options import Options, parse_options

VOCABULARY = 500
BACKLOG = 4096
FOREVER_S = 3600.0


@dataclass
class Seen:
    """One POST as the server saw it; `sent_at_ns` has the moment of each chunk of tokens."""

    number: int
    request_id: str | None
    received_at_ns: int
    prompt_tokens: int
    max_tokens: int
    min_tokens: int | None
    ignore_eos: bool
    sent_at_ns: list[int] = field(default_factory=list)
    ended: str = "open"


def answer_tokens(prompt: Sequence[int] | str, count: int) -> list[int]:
    """The ids that the stand-in answers: always the same for one prompt."""
    seed = zlib.crc32(repr(list(prompt)).encode())
    return [(seed + 7919 * index) % VOCABULARY for index in range(count)]


class StubServer:
    """Answers like an OpenAI server, at the times that `options` say."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._seen: list[Seen] = []
        self._open = 0
        self._peak_open = 0
        self._first_at_ns: int | None = None

    async def serve(self) -> None:
        """Listen on loopback, print the port as the first line of stdout, and answer until the process is ended."""
        server = await asyncio.start_server(self._connection, "127.0.0.1", self._options.port, backlog=BACKLOG)
        print(server.sockets[0].getsockname()[1], flush=True)
        async with server:
            await (_stdin_closed() if self._options.leash else server.serve_forever())

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (request := await _read_request(reader)) is not None:
                if not await self._answer(writer, *request):
                    break
        except (asyncio.IncompleteReadError, ConnectionError) as problem:
            print(f"a client left: {problem}", file=sys.stderr)
        finally:
            writer.close()

    async def _answer(self, writer: asyncio.StreamWriter, line: str, headers: dict[str, str], body: bytes) -> bool:
        """Answer one request; False when the connection is to be closed."""
        received_at_ns = now_ns()
        if not line.startswith("POST "):
            await _send_json(writer, 200, self._told(line.split()[1]))
            return True
        asked = json.loads(body)
        seen = self._note(received_at_ns, headers, asked)
        self._open += 1
        self._peak_open = max(self._peak_open, self._open)
        try:
            return await self._complete(writer, seen, asked)
        except ConnectionError:
            seen.ended = "client_gone"
            raise
        finally:
            self._open -= 1

    def _told(self, path: str) -> dict[str, Any]:
        if path == "/_log":
            return {"posts": [asdict(seen) for seen in self._seen], "peak_open": self._peak_open}
        if path == "/v1/models":
            return {"object": "list", "data": [{"id": "stub", "object": "model"}]}
        return {}

    def _note(self, received_at_ns: int, headers: dict[str, str], body: dict[str, Any]) -> Seen:
        if self._first_at_ns is None:
            self._first_at_ns = received_at_ns
        seen = Seen(
            number=len(self._seen) + 1, request_id=headers.get("x-request-id"), received_at_ns=received_at_ns,
            prompt_tokens=len(body["prompt"]), max_tokens=body["max_tokens"], min_tokens=body.get("min_tokens"),
            ignore_eos=bool(body.get("ignore_eos")),
        )
        self._seen.append(seen)
        return seen

    async def _complete(self, writer: asyncio.StreamWriter, seen: Seen, body: dict[str, Any]) -> bool:
        options = self._options
        if _strikes(options.hang_every, seen.number):
            seen.ended = "hung"
            await sleep_async_s(FOREVER_S)
        if _strikes(options.fail_every, seen.number):
            seen.ended = "failed"
            await _send_json(writer, options.status, {"error": {"message": "the stand-in fails as told", "code": 0}})
            return True
        count = min(seen.max_tokens, options.stop_after) if options.stop_after else seen.max_tokens
        finish = "stop" if count < seen.max_tokens else "length"
        tokens = answer_tokens(body["prompt"], count)
        if body.get("stream"):
            return await self._stream(writer, seen, tokens, finish)
        await self._pause_until(seen.received_at_ns, count - 1)
        choice = {"index": 0, "text": _text(tokens), "token_ids": tokens, "finish_reason": finish}
        await _send_json(writer, 200, {"choices": [choice], "usage": _usage(seen, count)})
        seen.ended = "served"
        return True

    async def _stream(self, writer: asyncio.StreamWriter, seen: Seen, tokens: list[int], finish: str) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        step = self._options.tokens_per_chunk
        for first in range(0, len(tokens), step):
            part = tokens[first : first + step]
            last = first + len(part) == len(tokens)
            await self._pause_until(seen.received_at_ns, first + len(part) - 1)
            if first > 0 and await self._misbehaves(writer, seen):
                return False
            choice: dict[str, Any] = {"index": 0, "text": _text(part), "finish_reason": finish if last else None}
            if self._options.token_ids:
                choice["token_ids"] = part
            seen.sent_at_ns.append(now_ns())
            await _send_event(writer, {"choices": [choice]})
        await _send_event(writer, {"choices": [], "usage": _usage(seen, len(tokens))})
        _write_chunk(writer, b"data: [DONE]\n\n")
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        seen.ended = "served"
        return True

    async def _misbehaves(self, writer: asyncio.StreamWriter, seen: Seen) -> bool:
        """After the first chunk: break the stream off if this request is to show that."""
        if _strikes(self._options.cut_every, seen.number):
            seen.ended = "cut"
            return True
        if _strikes(self._options.error_every, seen.number):
            seen.ended = "error"
            await _send_event(writer, {"error": {"message": "KV load failed as told", "code": 500}})
            _write_chunk(writer, b"data: [DONE]\n\n")
            writer.write(b"0\r\n\r\n")
            await writer.drain()
            return True
        return False

    async def _pause_until(self, received_at_ns: int, token: int) -> None:
        """Until `token` (from 0) is due, and beyond the freeze if one is on."""
        due_ms = self._options.ttft_ms + token * self._options.itl_ms
        await _sleep_until(received_at_ns + round(due_ms * 1e6))
        if self._options.freeze is not None and self._first_at_ns is not None:
            from_s, for_s = self._options.freeze
            began_at_ns = self._first_at_ns + round(from_s * 1e9)
            if began_at_ns <= now_ns():
                await _sleep_until(began_at_ns + round(for_s * 1e9))


async def _stdin_closed() -> None:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.read()


async def _sleep_until(at_ns: int) -> None:
    left_s = (at_ns - now_ns()) / 1e9
    if left_s > 0:
        await sleep_async_s(left_s)


async def _read_request(reader: asyncio.StreamReader) -> tuple[str, dict[str, str], bytes] | None:
    """The request line, the headers in lower case and the body; None when the client has closed."""
    if reader.at_eof():
        return None
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError as end:
        if end.partial:
            raise
        return None
    line, *rest = head.strip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (header.partition(":") for header in rest)}
    return line, headers, await reader.readexactly(int(headers.get("content-length", "0")))


async def _send_json(writer: asyncio.StreamWriter, status: int, content: dict[str, Any]) -> None:
    body = json.dumps(content).encode()
    head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    await writer.drain()


async def _send_event(writer: asyncio.StreamWriter, content: dict[str, Any]) -> None:
    _write_chunk(writer, b"data: " + json.dumps(content).encode() + b"\n\n")
    await writer.drain()


def _write_chunk(writer: asyncio.StreamWriter, content: bytes) -> None:
    writer.write(b"%x\r\n" % len(content) + content + b"\r\n")


def _strikes(every: int, number: int) -> bool:
    return every > 0 and number % every == 0


def _text(tokens: list[int]) -> str:
    return "".join(f" {token}" for token in tokens)


def _usage(seen: Seen, count: int) -> dict[str, int]:
    total = seen.prompt_tokens + count
    return {"prompt_tokens": seen.prompt_tokens, "completion_tokens": count, "total_tokens": total}


if __name__ == "__main__":
    asyncio.run(StubServer(parse_options(sys.argv[1:])).serve())
