"""One engine alone: a stand-in process answers, and nothing of it is left."""

import sys
from pathlib import Path

import pytest

from testbed.engines.child import group_pids
from testbed.engines.solo import engine_alone
from testbed.errors import DeployError, RunError

# Maps a file /dev/shm/psm_* that it will not remove, starts a child, and serves what an engine does.
STAND_IN = """
import http.server, json, mmap, signal, subprocess, sys
port, name = int(sys.argv[1]), sys.argv[2]
file = open("/dev/shm/" + name, "wb+")
file.write(bytes(4096)); file.flush()
mapped = mmap.mmap(file.fileno(), 4096)
code = "import signal; print('up', flush=True); signal.pause()"
child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
child.stdout.readline()

class Handler(http.server.BaseHTTPRequestHandler):
    def reply(self, status, content):
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
    def do_GET(self):
        self.reply(200, b"")
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if asked["prompt"] == [13]:
            self.reply(500, b"no luck")
        else:
            ids = [asked["prompt"][0] + i for i in range(asked["max_tokens"])]
            self.reply(200, json.dumps({"choices": [{"token_ids": ids}]}).encode())

http.server.HTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""


def quiet(text: str) -> None:
    """Nobody listens."""


class Command:
    """Starts `code` in place of vLLM, with the port and a name below /dev/shm."""

    def __init__(self, code: str, shared_memory: str = "") -> None:
        self.code = code
        self.shared_memory = shared_memory

    def __call__(self, folder: Path, dtype: str, port: int, max_model_len: int) -> tuple[list[str], dict[str, str]]:
        return [sys.executable, "-c", self.code, str(port), self.shared_memory], {}


def test_an_engine_answers_and_leaves_no_process_and_no_shared_memory(tmp_path: Path) -> None:
    ours, foreign = Path(f"/dev/shm/psm_{tmp_path.name}"), Path(f"/dev/shm/psm_foreign_{tmp_path.name}")
    foreign.touch()
    try:
        with engine_alone(tmp_path, "float32", 512, Command(STAND_IN, ours.name)) as engine:
            engine.await_ready(quiet)
            token_ids, took_s = engine.answer([40, 41], 3)
            group = engine.process.pid
            assert ours.exists()
            assert len(group_pids(group)) == 2
        assert token_ids == [40, 41, 42]
        assert took_s > 0
        assert group_pids(group) == []
        assert not ours.exists()
        assert foreign.exists()
    finally:
        foreign.unlink()


def test_an_error_of_the_engine_is_passed_on_in_its_own_words(tmp_path: Path) -> None:
    name = f"psm_{tmp_path.name}"
    with engine_alone(tmp_path, "float32", 512, Command(STAND_IN, name)) as engine:
        engine.await_ready(quiet)
        with pytest.raises(RunError, match="the engine answered 500: no luck"):
            engine.answer([13], 1)


def test_a_block_that_breaks_ends_the_engine_all_the_same(tmp_path: Path) -> None:
    name = f"psm_{tmp_path.name}"
    groups: list[int] = []

    def broken_off() -> None:
        with engine_alone(tmp_path, "float32", 512, Command(STAND_IN, name)) as engine:
            groups.append(engine.process.pid)
            engine.await_ready(quiet)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        broken_off()
    assert group_pids(groups[0]) == []
    assert not (Path("/dev/shm") / name).exists()


def test_an_engine_that_exits_at_once_is_reported_with_its_last_words(tmp_path: Path) -> None:
    with (
        pytest.raises(DeployError, match=r"(?s)exited with status 3.*no such dtype"),
        engine_alone(tmp_path, "float7", 512, Command("print('no such dtype'); raise SystemExit(3)")) as engine,
    ):
        engine.await_ready(quiet)
