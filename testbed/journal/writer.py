"""Append events to one shard of a journal. The only code that writes events.

Each process has a shard of its own, so that no two writers share a file. A line is written with a single `write` and is
complete or is the last one: a kill at any byte costs at most that line. Imports msgspec and the standard library alone.
"""

import contextlib
import os
import socket
import threading
import time
from pathlib import Path
from typing import Any

import msgspec

from testbed.journal.events import Event


class JournalWriter:
    """One shard, `FOLDER/NAME.PID.jsonl`; stamps each event with time, host, pid, seq, arm and repetition.

    Safe to call from several threads. Raises OSError when the disk does not take the line.
    """

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"{name}.{os.getpid()}.jsonl"
        self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._encoder = msgspec.json.Encoder()
        self._lock = threading.Lock()
        self._file_lock = threading.Lock()
        self._host = socket.gethostname()
        self._pid = os.getpid()
        self._whole_bytes = os.fstat(self._file).st_size
        self._seq = 0
        self._arm = ""
        self._repetition = 0

    def enter(self, arm: str, repetition: int) -> None:
        """Events written from now on belong to this arm and repetition."""
        with self._lock:
            self._arm, self._repetition = arm, repetition

    @property
    def place(self) -> tuple[str, int]:
        """The arm and repetition to which events belong now."""
        with self._lock:
            return self._arm, self._repetition

    def write(self, kind: type[Event], **fields: Any) -> None:
        """Make an event of `kind` from `fields` and append it as one line."""
        self.append(self.line(kind, **fields))

    def line(self, kind: type[Event], **fields: Any) -> bytes:
        """The event as a line with its number, for who hands it to `append` later and many at once. Never blocks."""
        with self._lock:
            event = kind(
                at_ns=time.monotonic_ns(),
                host=self._host,
                pid=self._pid,
                seq=self._seq,
                arm=self._arm,
                repetition=self._repetition,
                **fields,
            )
            self._seq += 1
            return self._encoder.encode(event) + b"\n"

    def append(self, lines: bytes) -> None:
        """Write whole lines. If the disk does not take all of them, it is left with none of them."""
        with self._file_lock:
            try:
                self._write_whole(lines)
            except OSError:
                # The cause counts, also where the file can't even be cut.
                with contextlib.suppress(OSError):
                    os.ftruncate(self._file, self._whole_bytes)
                raise
            self._whole_bytes += len(lines)

    def _write_whole(self, lines: bytes) -> None:
        written = os.write(self._file, lines)
        while written < len(lines):
            written += os.write(self._file, lines[written:])

    def break_off(self) -> None:
        """Close the shard so that every reader finds its last line cut off: for who can write no more.

        Nothing is written for it, for a full disk takes nothing: the end of the last whole line is taken away.
        """
        with self._file_lock:
            if self._whole_bytes:
                os.ftruncate(self._file, self._whole_bytes - 1)
            os.close(self._file)

    def close(self) -> None:
        """Give the file back to the system."""
        os.close(self._file)
