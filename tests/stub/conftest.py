"""A stand-in in a thread of this process, and plain ways to talk to it."""

import asyncio
import http.client
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import uvloop

from testbed.stub.log import StubLog, decode_log
from testbed.stub.options import parse_options
from testbed.stub.server import listen

LIMIT_S = 10.0


@dataclass(frozen=True)
class Answer:
    """A response with its whole body."""

    status: int
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[Any]:
        """The data of each event: JSON, or the text of the last one."""
        parts = [part.removeprefix(b"data: ") for part in self.body.split(b"\n\n") if part]
        return [part.decode() if part == b"[DONE]" else json.loads(part) for part in parts]


class Caller:
    """One connection that is kept."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)

    def begin(self, body: Any, path: str = "/v1/completions", **headers: str) -> None:
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
        self._connection.request("POST", path, text, {name.replace("_", "-"): value for name, value in headers.items()})

    def end(self) -> Answer:
        response = self._connection.getresponse()
        return Answer(response.status, response.read())

    def post(self, body: Any, path: str = "/v1/completions", **headers: str) -> Answer:
        self.begin(body, path, **headers)
        return self.end()

    def get(self, path: str) -> Answer:
        self._connection.request("GET", path)
        return self.end()

    def posts(self) -> list[dict[str, Any]]:
        return list(self.get("/_log").json["posts"])

    def columns(self) -> StubLog:
        return decode_log(self.get("/_log.bin").body)

    def close(self) -> None:
        self._connection.close()


@contextmanager
def serving(arguments: tuple[str, ...]) -> Iterator[int]:
    """The port of a stand-in that runs in a thread."""
    loop = uvloop.new_event_loop()
    server = loop.run_until_complete(listen(parse_options(list(arguments))))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        asyncio.run_coroutine_threadsafe(_close(server), loop).result(LIMIT_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(LIMIT_S)
        loop.close()


async def _close(server: asyncio.Server) -> None:
    server.close()


Start = Callable[..., Callable[[], Caller]]


@pytest.fixture
def stub() -> Iterator[Start]:
    """Start a stand-in with these arguments; what is returned opens connections to it."""
    with ExitStack() as stack:

        def start(*arguments: str) -> Callable[[], Caller]:
            port = stack.enter_context(serving(arguments))

            def connect() -> Caller:
                caller = Caller(port)
                stack.callback(caller.close)
                return caller

            return connect

        yield start
