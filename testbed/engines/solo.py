"""One plain engine, alone, for as long as a `with` block lasts. Nothing of it is left behind."""

import http.client
import json
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed import clock
from testbed.engines.child import Talk, end_group, group_pids, python_env, tail, telling_polls
from testbed.engines.serve import serve_command
from testbed.errors import DeployError, RunError

CommandOf = Callable[[Path, str, int, int], tuple[list[str], dict[str, str]]]

_SHARED_MEMORY = Path("/dev/shm")
_READY_LIMIT_S = 300.0
_REQUEST_LIMIT_S = 180.0


@dataclass(frozen=True)
class SoloEngine:
    """A process that was started; ask it only after `await_ready`."""

    process: subprocess.Popen[bytes]
    model: str
    dtype: str
    port: int
    log: Path

    def await_ready(self, talk: Talk) -> None:
        """Raises: DeployError with the end of its log if it exits or isn't ready in time."""
        for _ in telling_polls(_READY_LIMIT_S, talk, f"waiting for the engine with {self.dtype}"):
            if self.process.poll() is not None:
                raise DeployError(f"the engine exited with status {self.process.returncode}:\n{self.log_tail()}")
            if self._healthy():
                return
        raise DeployError(f"the engine was not ready after {_READY_LIMIT_S:g} s:\n{self.log_tail()}")

    def _healthy(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def answer(self, prompt: Sequence[int], max_tokens: int) -> tuple[list[int], float]:
        """Greedy token ids, the end token not heeded, and the seconds it took.

        Raises: RunError if the engine gives anything but a whole answer.
        """
        body = json.dumps({
            "model": self.model, "prompt": list(prompt), "max_tokens": max_tokens, "temperature": 0.0,
            "ignore_eos": True, "return_token_ids": True,
        })
        began_s = clock.now_s()
        status, content = self._post("/v1/completions", body)
        took_s = clock.now_s() - began_s
        if status != 200:
            raise RunError(f"the engine answered {status}: {content[:500].decode(errors='replace')}")
        answer: dict[str, Any] = json.loads(content)
        return list(answer["choices"][0]["token_ids"]), took_s

    def _post(self, path: str, body: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_REQUEST_LIMIT_S)
        try:
            connection.request("POST", path, body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, response.read()
        except (OSError, http.client.HTTPException) as problem:
            raise RunError(f"the engine did not answer: {problem!r}\n{self.log_tail()}") from problem
        finally:
            connection.close()

    def log_tail(self) -> str:
        """The end of what the engine has said."""
        return tail(self.log.read_text(errors="replace"))


@contextmanager
def engine_alone(
    model_folder: Path, dtype: str, max_model_len: int, command_of: CommandOf = serve_command,
) -> Iterator[SoloEngine]:
    """Start an engine; end its whole process group afterwards, and remove the shared memory that it mapped."""
    port = _free_port()
    command, env = command_of(model_folder, dtype, port, max_model_len)
    with tempfile.TemporaryDirectory(prefix="testbed-engine-") as scratch:
        log = Path(scratch) / "engine.log"
        with log.open("wb") as sink:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT,
                cwd=scratch, env=python_env(env), start_new_session=True,
            )
        try:
            yield SoloEngine(process, model_folder.name, dtype, port, log)
        finally:
            mapped = _mapped_shared_memory(process.pid)
            end_group(process)
            for path in mapped:
                path.unlink(missing_ok=True)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _mapped_shared_memory(group: int) -> set[Path]:
    """Files /dev/shm/psm_* that a process of the group has mapped; vLLM leaves them when it is killed."""
    names: set[Path] = set()
    for pid in group_pids(group):
        for line in _maps(pid).splitlines():
            path = Path(line.split(maxsplit=5)[-1].removesuffix(" (deleted)"))
            if path.parent == _SHARED_MEMORY and path.name.startswith("psm_"):
                names.add(path)
    return names


def _maps(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/maps").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""  # it has ended meanwhile
