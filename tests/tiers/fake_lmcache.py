"""A stand-in for the tier's server: the part of its HTTP interface that is asked, over two small levels.

It shows on /metrics and /status what the real one does, under the real one's names.
"""

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from redis import Redis

_RANK = "1000100"


@dataclass
class Levels:
    """What the two levels hold. Objects are written to both; a lookup moves them from the backing into memory."""

    backing: "Redis"
    model: str
    unit: int
    memory: set[str] = field(default_factory=set)
    in_flight: int = 0
    broken: bool = False
    counted: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("requested", "hit_l1", "hit_l2"), 0))

    def key(self, name: str) -> str:
        """An object's key in the backing."""
        return f"{self.model}@{_RANK}@0@{name}"

    def save(self, names: Sequence[str]) -> None:
        """Keep the objects of a prompt."""
        self.memory.update(names)
        for name in names:
            self.backing.set(self.key(name), b"kv")

    def lookup(self, names: Sequence[str]) -> int:
        """The tokens of the leading objects that are here."""
        self.counted["requested"] += self.unit * len(names)
        for number, name in enumerate(names):
            level = "hit_l1" if name in self.memory else "hit_l2" if self.backing.exists(self.key(name)) else None
            if level is None:
                return self.unit * number
            self.counted[level] += self.unit
            self.memory.add(name)
        return self.unit * len(names)

    def delete(self, names: Sequence[str]) -> int:
        """The copies that memory held, and one for each name: the real one does not ask its backing what was there."""
        here = self.memory & set(names)
        self.memory -= here
        for name in names:
            self.backing.delete(self.key(name))
        return len(here) + len(names)


class Answers(BaseHTTPRequestHandler):
    """The requests that the testbed makes; anything else is a 404."""

    levels: Levels

    def log_message(self, format: str, *args: object) -> None:
        """Nothing on the terminal."""

    def _answer(self, body: bytes, code: int = 200) -> None:
        self.send_response(503 if self.levels.broken else code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _body(self) -> Any:
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

    def do_GET(self) -> None:
        pages = {"/healthcheck": b"{}", "/status": self._status(), "/metrics": self._metrics()}
        self._answer(pages[self.path]) if self.path in pages else self._answer(b"no such page", 404)

    def _status(self) -> bytes:
        memory = {"total_object_count": len(self.levels.memory), "write_locked_count": 0}
        store = {"pending_keys_count": self.levels.in_flight, "in_flight_task_count": 0}
        return json.dumps({"storage_manager": {"l1_manager": memory, "store_controller": store}}).encode()

    def _metrics(self) -> bytes:
        lines = [f'lmcache_mp_lookup_{name}_tokens_total{{model_name="m"}} {count}.0'
                 for name, count in self.levels.counted.items()]
        return "\n".join(lines).encode()

    def do_POST(self) -> None:
        if self.path == "/cache/clear" and self._body() == {"force": True}:
            self.levels.memory.clear()
            self._answer(b"{}")
        else:
            self._answer(b"no such page", 404)

    def do_DELETE(self) -> None:
        asked = self._body()
        known = {"tier": "all", "force": True}
        wanted = {"model_name": self.levels.model, "kv_rank": int(_RANK, 16), "object_group_id": 0}
        named = [one["chunk_hash_hex"] for one in asked["keys"] if wanted.items() <= one.items()]
        if self.path != "/cache/objects" or not known.items() <= asked.items():
            self._answer(b"no such page", 404)
        else:
            self._answer(json.dumps({"deleted": self.levels.delete(named), "skipped": 0}).encode())


@contextmanager
def serving(levels: Levels) -> Iterator[int]:
    """The port of a server over these levels."""
    answers = type("AnswersFor", (Answers,), {"levels": levels})
    with ThreadingHTTPServer(("127.0.0.1", 0), answers) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()
