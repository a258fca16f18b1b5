"""`python -m testbed.drive.worker`: one client process of several, told on stdin what to do.

It reads its share of the schedule from two files, writes a shard of the journal of its own, and tells on stdout where
it stands. Where stdin ends, whoever started it is gone: it drops what is in flight and ends too.
"""

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec

from testbed.clock import sleep_s
from testbed.drive.endpoint import Endpoint
from testbed.drive.flight import Route, Terms, collected, fly
from testbed.drive.orders import FromWorker, Go, IsReady, Order, Stop, ToWorker, Trouble
from testbed.drive.record import Recorder
from testbed.drive.share import open_share
from testbed.errors import RunError, TestbedError
from testbed.journal.writer import JournalWriter

END_WITHIN_S = 5.0
"""So long may a worker take to end in good order once it is alone."""
READ_BYTES = 65536


class Heard:
    """What stdin says while a flight is on, heard by a thread of its own."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._drop = threading.Event()

    def stop_asked(self) -> bool:
        """Nothing more is to be sent."""
        return self._stop.is_set()

    def drop_asked(self) -> bool:
        """What is in flight is to be ended."""
        return self._drop.is_set()

    def listen(self, lines: Iterator[bytes]) -> None:
        """Until the lines end; then make sure that this process does."""
        for line in lines:
            said = msgspec.json.decode(line, type=ToWorker)
            if isinstance(said, Stop):
                self._stop.set()
                if said.drop:
                    self._drop.set()
        self._stop.set()
        self._drop.set()
        sleep_s(END_WITHIN_S)
        os._exit(RunError.exit_code)


def say(message: FromWorker) -> None:
    """One line to whoever started this."""
    sys.stdout.buffer.write(msgspec.json.encode(message) + b"\n")
    sys.stdout.buffer.flush()


def lines_of(file: int) -> Iterator[bytes]:
    """The lines that a descriptor gives. A thread that waits here holds no lock that the end of this process needs."""
    rest = b""
    while piece := os.read(file, READ_BYTES):
        *lines, rest = (rest + piece).split(b"\n")
        yield from lines


def _next(kind: type[Order] | type[Go], lines: Iterator[bytes]) -> ToWorker | None:
    """The next line, which is of this kind; None where there is none any more."""
    line = next(lines, None)
    return None if line is None else msgspec.json.decode(line, type=kind)


def work() -> None:
    """Do what one order says."""
    lines = lines_of(sys.stdin.fileno())
    order = _next(Order, lines)
    if not isinstance(order, Order):
        return
    endpoint = Endpoint(order.base_url, order.model, api_key=order.api_key, ca_file=order.ca_file)
    with (
        open_share(order.items, order.bodies, order.count) as share,
        closing(JournalWriter(Path(order.journal_folder), order.journal_name)) as journal,
        collected(),
    ):
        journal.enter(order.arm, order.repetition)
        say(IsReady())
        go = _next(Go, lines)
        if not isinstance(go, Go):
            return
        heard = Heard()
        threading.Thread(target=heard.listen, args=(lines,), name="stdin", daemon=True).start()
        terms = Terms(
            order.max_concurrency, order.keep_in_flight_on_stop, heard.stop_asked, heard.drop_asked, tell=say
        )
        with Recorder(journal) as recorder:
            tally = fly(share, Route(endpoint, order.address, order.path), recorder, terms, go.zero_at_ns)
        say(tally)


def main() -> int:
    """Work, and tell the one who waits for it what went wrong."""
    try:
        work()
    except BrokenPipeError:
        return RunError.exit_code
    except TestbedError as problem:
        say(Trouble(problem.message, problem.where))
        return problem.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
