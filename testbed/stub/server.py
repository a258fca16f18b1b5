"""`python -m testbed.stub.server`: a stand-in OpenAI server with known timing, in its own process.

For tests and for calibrating the client only: it runs no model, and a journal made with it must say so. Token i of an
answer leaves at TTFT + i x ITL after the request was received, on absolute times, so that no delay adds up. Answers
depend on the prompt alone. `GET /_log` tells what arrived and when each token was sent, on this host's monotonic clock;
`GET /_log.bin` has the stamps in columns, for many requests.
"""

import asyncio
import gc
import os
import resource
import sys

import uvloop

from testbed.stub.answer import answer_tokens
from testbed.stub.connection import Connection, HttpRequest
from testbed.stub.log import Ledger, encode_log
from testbed.stub.options import Options, parse_options
from testbed.stub.serving import Serving
from testbed.stub.timers import Timers

__all__ = ["answer_tokens", "listen"]

BACKLOG = 4096
_GARBAGE_AFTER = 100_000
"""Objects between two looks for garbage: a look holds up all answers, and next to nothing here needs one."""


async def listen(options: Options) -> asyncio.Server:
    """Begin to answer on loopback, in the loop that runs."""
    loop = asyncio.get_running_loop()
    ledger = Ledger(options.log)
    serving = Serving(options, ledger, Timers(loop))

    def handle(connection: Connection, request: HttpRequest) -> None:
        if request.method == "POST":
            serving.post(connection, request)
            return
        is_binary = request.path == "/_log.bin"
        connection.write(_octets(encode_log(ledger.columns())) if is_binary else serving.told(request.path))
        connection.finish()

    return await loop.create_server(lambda: Connection(handle), "127.0.0.1", options.port, backlog=BACKLOG)


async def serve(options: Options) -> None:
    """Listen, print the port as the first line of stdout, and answer until the process is ended."""
    server = await listen(options)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await (_stdin_closed() if options.leash else server.serve_forever())


def _octets(body: bytes) -> bytes:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def _stdin_closed() -> None:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.read()


def main(arguments: list[str]) -> None:
    """Serve as the command line says."""
    options = parse_options(arguments)
    if options.cores:
        os.sched_setaffinity(0, options.cores)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    gc.freeze()
    gc.set_threshold(_GARBAGE_AFTER)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(options))


if __name__ == "__main__":
    main(sys.argv[1:])
