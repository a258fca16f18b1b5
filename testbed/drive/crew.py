"""Worker processes of a drive on this host: started together, one zero for all, and none left behind."""

import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from testbed.clock import now_s
from testbed.drive.orders import FromWorker, Go, IsReady, Order, Stop, ToWorker, Trouble
from testbed.drive.pace import Standing, Tally
from testbed.drive.share import Share
from testbed.errors import RunError

READY_LIMIT_S = 60.0
END_LIMIT_S = 10.0
LOOK_S = 0.1


class Worker:
    """One process. Its stdin is a pipe that this process holds, so it ends when this one does."""

    def __init__(self, number: int, share: Share) -> None:
        self.number = number
        self.process = subprocess.Popen(
            [sys.executable, "-m", "testbed.drive.worker"], cwd=Path(__file__).resolve().parents[2],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            pass_fds=share.files, start_new_session=True,
        )

    def tell(self, message: ToWorker) -> None:
        """Say one thing to it. That it has ended is noticed by who reads what it says."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            os.write(self.process.stdin.fileno(), msgspec.json.encode(message) + b"\n")

    def listen(self, inbox: "queue.SimpleQueue[tuple[int, FromWorker | None]]") -> None:
        """Put all that it says into `inbox`, and None at its end."""
        assert self.process.stdout is not None
        decode = msgspec.json.Decoder(FromWorker).decode
        for line in self.process.stdout:
            inbox.put((self.number, decode(line)))
        inbox.put((self.number, None))

    def leave(self) -> None:
        """Close its stdin, which asks it to end."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def end(self, limit_s: float) -> int:
        """Its exit status, once it has ended; after `limit_s` it is made to."""
        try:
            return self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def close(self) -> None:
        """Give its pipes back; it has ended."""
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()

    def last_words(self) -> str:
        """The last line that it wrote to stderr; it has ended."""
        assert self.process.stderr is not None
        lines = self.process.stderr.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"


class Crew:
    """Workers that share a schedule. Leave the context and all have ended, whatever happened."""

    def __init__(self, shares: Sequence[Share], orders: Sequence[Order]) -> None:
        self._orders = orders
        self._workers = [Worker(number, share) for number, share in enumerate(shares)]
        self._inbox: queue.SimpleQueue[tuple[int, FromWorker | None]] = queue.SimpleQueue()
        self._standings: dict[int, Standing] = {}
        self._tallies: dict[int, Tally] = {}
        self._threads = [
            threading.Thread(target=worker.listen, args=(self._inbox,), name=f"worker {worker.number}", daemon=True)
            for worker in self._workers
        ]

    def __enter__(self) -> "Crew":
        for thread, worker, order in zip(self._threads, self._workers, self._orders, strict=True):
            thread.start()
            worker.tell(order)
        return self

    def __exit__(self, kind: object, problem: object, trace: object) -> None:
        for worker in self._workers:
            worker.leave()
        for worker in self._workers:
            worker.end(END_LIMIT_S)
        for thread, worker in zip(self._threads, self._workers, strict=True):
            thread.join()
            worker.close()

    def await_ready(self) -> None:
        """Until all have read their orders.

        Raises: RunError if one has not within READY_LIMIT_S.
        """
        waiting, ends_at_s = {worker.number for worker in self._workers}, now_s() + READY_LIMIT_S
        while waiting:
            if now_s() > ends_at_s:
                raise RunError(f"client worker {min(waiting)} was not ready within {READY_LIMIT_S:g} s")
            number, said = self._next(LOOK_S)
            if isinstance(said, IsReady):
                waiting.discard(number)

    def fly(
        self, zero_at_ns: int, tell: Callable[[Sequence[Standing]], None], stop_wanted: Callable[[], Stop | None]
    ) -> list[Tally]:
        """Let all begin at the same zero; return what each did. `tell` and `stop_wanted` are called about every 0.1 s.

        Raises: RunError if one of them breaks.
        """
        self._tell_all(Go(zero_at_ns))
        look_at_s = now_s() + LOOK_S
        while len(self._tallies) < len(self._workers):
            number, said = self._next(look_at_s - now_s())
            if isinstance(said, Standing):
                self._standings[number] = said
            elif isinstance(said, Tally):
                self._tallies[number] = said
            if now_s() >= look_at_s:
                look_at_s = now_s() + LOOK_S
                tell(list(self._standings.values()))
                wanted = stop_wanted()
                if wanted is not None:
                    self._tell_all(wanted)
        tell(list(self._standings.values()))
        return [self._tallies[worker.number] for worker in self._workers]

    def _tell_all(self, message: ToWorker) -> None:
        for worker in self._workers:
            worker.tell(message)

    def _next(self, limit_s: float) -> tuple[int, FromWorker | None]:
        """The next message and who said it, or None after `limit_s`.

        Raises: RunError if a worker has trouble, or has ended before its time.
        """
        try:
            number, said = self._inbox.get(timeout=max(limit_s, 0.0))
        except queue.Empty:
            return 0, None
        name = f"client worker {number} of {len(self._workers)}"
        if isinstance(said, Trouble):
            raise RunError(f"{name}: {said.message}", where=said.where)
        if said is None and number not in self._tallies:
            worker = self._workers[number]
            status = worker.end(END_LIMIT_S)
            raise RunError(f"{name} ended before its time, with status {status}: {worker.last_words()}")
        return number, said
