"""A router in the test's own event loop, with the journal that it wrote, and clients that speak to it."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from testbed.journal.events import Event, LegBegan, LegEnded, RouteChosen
from testbed.journal.reader import load_journal
from testbed.router.serve import Server
from testbed.spec.routing import EngineAt, RouterConfig
from tests.router.engines import FakeEngine, Script

LIMIT_S = 20.0


@dataclass
class Running:
    """A router that listens, and a client of it."""

    server: Server
    client: httpx.AsyncClient
    folder: Path
    url: str

    async def complete(
        self, body: dict[str, Any] | None = None, *, request_id: str = "R.arm.0.1", path: str = "/v1/completions"
    ) -> httpx.Response:
        """One completion, streamed unless the body says otherwise."""
        asked = {"model": "m", "prompt": [1, 2, 3], "max_tokens": 3, "stream": True} if body is None else body
        return await self.client.post(path, json=asked, headers={"X-Request-Id": request_id})

    def events(self, kind: type[Event]) -> list[Any]:
        """What the journal holds of one kind, in order."""
        self.server.house.record.settle()
        return load_journal(self.folder).select(kind)

    def legs(self) -> dict[str, LegEnded]:
        """How each leg ended; by its name, where only one request was made."""
        return {event.leg: event for event in self.events(LegEnded)}

    def routes(self) -> list[RouteChosen]:
        return self.events(RouteChosen)

    def begun(self) -> list[LegBegan]:
        return self.events(LegBegan)


Start = Callable[..., Awaitable[Running]]
Engines = Callable[[Script], Awaitable[FakeEngine]]


@pytest.fixture
async def engine() -> AsyncIterator[Engines]:
    """Start a scripted engine."""
    started: list[FakeEngine] = []

    async def start(script: Script) -> FakeEngine:
        started.append(await FakeEngine(script).start())
        return started[-1]

    yield start
    for one in started:
        await one.stop()


@pytest.fixture
async def router(tmp_path: Path) -> AsyncIterator[Start]:
    """Start a router for engines given by name, URL and role; what else is given goes into its file.

    A bug that only the loop gets to hear of fails the test.
    """
    started: list[Running] = []
    bugs: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: bugs.append(context))

    async def start(*engines: EngineAt, **settings: Any) -> Running:
        config = RouterConfig(engines=list(engines), model="m", journal=str(tmp_path / "events"), **settings)
        server = Server(config)
        host, port = await server.start()
        client = httpx.AsyncClient(base_url=f"http://{host}:{port}", timeout=LIMIT_S, trust_env=False, verify=False)
        started.append(Running(server, client, tmp_path, f"http://{host}:{port}"))
        return started[-1]

    yield start
    for one in started:
        await one.client.aclose()
        await one.server.stop()
    assert bugs == []


def only(one: FakeEngine, name: str = "e0") -> EngineAt:
    """An engine that prefills and decodes."""
    return EngineAt(name=name, url=one.url)


def apart(prefill: FakeEngine, decode: FakeEngine, bootstrap: FakeEngine | None = None) -> list[EngineAt]:
    """One engine for each."""
    return [
        EngineAt(name="p0", url=prefill.url, role="prefill", bootstrap_url=bootstrap.url if bootstrap else None),
        EngineAt(name="d0", url=decode.url, role="decode"),
    ]


def error_of(response: httpx.Response) -> dict[str, Any]:
    """The typed error of a plain answer."""
    return dict(response.json()["error"])


def errors_in(stream: str) -> list[dict[str, Any]]:
    """The typed errors in a stream."""
    lines = [line.removeprefix("data: ") for line in stream.splitlines() if line.startswith('data: {"error"')]
    return [json.loads(line)["error"] for line in lines]


async def soon(condition: Callable[[], bool]) -> None:
    """Let the loop turn until `condition` holds."""
    async with asyncio.timeout(LIMIT_S):
        while not condition():
            await asyncio.to_thread(lambda: None)
