"""Append events to one shard of a journal. The only code that writes events.

Each process has a shard of its own, so that no two writers share a file. A line is written with a single `write` and is
complete or is the last one: a kill at any byte costs at most that line. Imports msgspec and the standard library alone.
"""

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
        self._host = socket.gethostname()
        self._pid = os.getpid()
        self._seq = 0
        self._arm = ""
        self._repetition = 0

    def enter(self, arm: str, repetition: int) -> None:
        """Events written from now on belong to this arm and repetition."""
        with self._lock:
            self._arm, self._repetition = arm, repetition

    def write(self, kind: type[Event], **fields: Any) -> None:
        """Make an event of `kind` from `fields` and append it as one line."""
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
            self._write_whole(self._encoder.encode(event) + b"\n")
            self._seq += 1

    def _write_whole(self, line: bytes) -> None:
        written = os.write(self._file, line)
        while written < len(line):
            written += os.write(self._file, line[written:])

    def close(self) -> None:
        """Give the file back to the system."""
        os.close(self._file)
