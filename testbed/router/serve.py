"""`python -m testbed.router.serve --config FILE`: the router as a process of its own.

Prints where it listens as the first line of stdout. SIGTERM or SIGINT ends it: what is in flight is broken off, and
every leg has its end in the journal.
"""

import argparse
import asyncio
import gc
import logging
import resource
import signal
import sys
from pathlib import Path

import uvloop

from testbed.errors import DeployError, SpecError, TestbedError
from testbed.router.client import Client
from testbed.router.desk import Desk
from testbed.router.house import House
from testbed.router.record import Record
from testbed.router.watch import Watch
from testbed.spec.routing import RouterConfig, read_router_config

BACKLOG = 4096
END_LIMIT_S = 5.0
GARBAGE_AFTER = 20_000
"""Objects between two looks for garbage: a look holds up every answer."""


class Server:
    """A router that listens. `address` is known once it has started."""

    def __init__(self, config: RouterConfig) -> None:
        self._config = config
        record = Record()
        if config.journal is not None:
            record.turn_to(config.journal)
        self.house = House(config, record)
        self._clients: set[Client] = set()
        self._server: asyncio.Server | None = None
        self._watch: asyncio.Task[None] | None = None

    async def start(self) -> tuple[str, int]:
        """Listen; return host and port.

        Raises: DeployError where the port is taken or the address is not of this machine.
        """
        desk, config = Desk(self.house), self._config
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(
                lambda: Client(desk.answer, self._clients), config.host, config.port, backlog=BACKLOG
            )
        except OSError as problem:
            raise DeployError(f"can't listen: {problem}", where=f"{config.host}:{config.port}") from problem
        self._watch = loop.create_task(Watch(self.house.engines, config.alive_s).run())
        host, port = self._server.sockets[0].getsockname()[:2]
        return str(host), int(port)

    async def stop(self) -> None:
        """Let nobody in, break off what is in flight, and close the journal when every leg has its end in it."""
        self.house.stopping = True
        if self._server is not None and self._watch is not None:
            self._server.close()
            self._watch.cancel()
        tasks = [task for client in list(self._clients) if (task := client.break_off()) is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=END_LIMIT_S)
        self.house.close()


async def serve(config: RouterConfig) -> None:
    """Answer until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    server = Server(config)
    host, port = await server.start()
    print(f"http://{host}:{port}", flush=True)
    await stop.wait()
    await server.stop()


def main(arguments: list[str]) -> int:
    """Run the router; the exit code is that of the error, with one line on stderr."""
    parser = argparse.ArgumentParser(prog="python -m testbed.router.serve", description=__doc__)
    parser.add_argument("--config", type=Path, required=True, metavar="FILE", help="engines, policy, deadlines")
    path = parser.parse_args(arguments).config
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        config = read_router_config(_text_of(path), str(path))
        gc.freeze()
        gc.set_threshold(GARBAGE_AFTER)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve(config))
    except TestbedError as problem:
        print(f"error: {problem}", file=sys.stderr)
        return problem.exit_code
    return 0


def _text_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as problem:
        raise SpecError(f"can't be read: {problem.strerror}", where=str(path)) from problem


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
