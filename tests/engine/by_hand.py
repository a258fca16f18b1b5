"""Real engines started by hand, without a deployment around them: for what a connector does, seen by its probe."""

import contextlib
import random
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from testbed.clock import wait_for
from testbed.deploy.processes import free_port
from testbed.engines.api import EngineApi
from testbed.engines.child import end_group, python_env
from testbed.engines.command import EngineSettings, engine_command, engine_env
from testbed.errors import RunError
from testbed.experiment.channel import Channel
from testbed.journal.events import Event, StepScheduled
from testbed.journal.reader import load_journal
from testbed.probe.orders import Aim, Orders

E = TypeVar("E", bound=Event)
BLOCK = 32
BLOCKS = 160
MAX_LENGTH = 1024
READY_LIMIT_S = 180.0
LIMIT_S = 60.0
ONE_THREAD = {"OMP_NUM_THREADS": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
Prompt = tuple[int, ...]
Answer = tuple[int, ...]


def prompt_of(seed: int, tokens: int) -> Prompt:
    """A prompt of the tiny model, like no other."""
    draw = random.Random(seed)
    return tuple(draw.randrange(3, 512) for _ in range(tokens))


@dataclass
class Engine:
    """One engine, the events of its probe, and the driver's end of the probe's orders."""

    name: str
    api: EngineApi
    folder: Path
    channel: Channel
    log: Path
    process: "subprocess.Popen[bytes]"

    def ask(self, prompt: Sequence[int], tokens: int, name: str, params: Mapping[str, Any] | None = None) -> Answer:
        """The greedy answer to a prompt."""
        return answer_of(self.answer(prompt, tokens, name, params))

    def answer(self, prompt: Sequence[int], tokens: int, name: str, params: Mapping[str, Any] | None = None) -> Any:
        """The engine's whole answer; it is made to go on to the end."""
        extra = {"ignore_eos": True} | ({} if params is None else {"kv_transfer_params": params})
        return self.api.complete(prompt, tokens, name, extra)

    def forget(self) -> None:
        """Empty the engine's own cache."""
        wait_for(self.api.reset_prefix_cache, limit_s=LIMIT_S, what="the engine to let go of all blocks")

    def events(self, kind: type[E], request_id: str | None = None) -> list[E]:
        """What the probe has told by now, of one request if it is named."""
        found = load_journal(self.folder).select(kind)
        return [one for one in found if request_id is None or getattr(one, "request_id", None) == request_id]

    def one(self, kind: type[E], request_id: str) -> E:
        """The only such event, once it has come."""
        what = f"{kind.__name__} of {request_id} in {self.name}"
        wait_for(lambda: bool(self.events(kind, request_id)), limit_s=LIMIT_S, what=what)
        [found] = self.events(kind, request_id)
        return found

    def computed(self, request_id: str) -> int:
        """Tokens of a request that were scheduled to be computed."""
        steps = self.events(StepScheduled)
        return sum(tokens for one in steps for name, _, tokens in one.work if name == request_id)

    def arm(self, aim: Aim) -> None:
        """Arm a fault, which dies by itself."""
        self.channel.arm(aim, 60.0)


def answer_of(answer: Any) -> Answer:
    """The token ids of an answer that is not streamed."""
    return tuple(answer["choices"][0]["token_ids"])


@dataclass(frozen=True)
class Wanted:
    """An engine to be started: its `--kv-transfer-config` and what its environment needs for it."""

    name: str
    transfer: Mapping[str, Any] | None = None
    env: Mapping[str, str] | None = None
    args: tuple[str, ...] = ()


def orders_path(folder: Path, name: str) -> Path:
    """Where an engine's probe finds its orders."""
    return folder / name / "orders.json"


@contextmanager
def engines(model: Path, folder: Path, wanted: Sequence[Wanted], **orders: Any) -> Iterator[list[Engine]]:
    """Start engines side by side; at the end nothing of them is left. `orders` are the guards of all of them."""
    before = set(Path("/dev/shm").iterdir())
    with ExitStack() as stack:
        try:
            started = [stack.enter_context(_started(model, folder / one.name, one, orders)) for one in wanted]
            with ThreadPoolExecutor(len(started)) as pool:
                list(pool.map(_await_ready, started))
            yield started
        finally:
            stack.close()
            for path in set(Path("/dev/shm").iterdir()) - before:
                if path.name.startswith("psm_"):
                    path.unlink(missing_ok=True)


@contextmanager
def _started(
    model: Path, folder: Path, wanted: Wanted, orders: Mapping[str, Any]
) -> Iterator[Engine]:
    folder.mkdir(parents=True)
    settings = EngineSettings(
        python=sys.executable, model_path=str(model), served_name="tiny", dtype="float32",
        port=free_port("127.0.0.1"), max_model_len=MAX_LENGTH, block_size=BLOCK, num_blocks=BLOCKS, budget=None,
        transfer=wanted.transfer, args=wanted.args,
    )
    usual = {"attempts": 1, "load_deadline_s": 20.0} | dict(orders)
    first = Orders(journal=str(folder / "events"), arm="hand", repetition=0, **usual)
    channel = Channel(folder / "orders.json", first)
    env = python_env(engine_env(1, {**ONE_THREAD, **(wanted.env if wanted.env else {})}))
    log = folder / "engine.log"
    with log.open("wb") as sink:
        process = subprocess.Popen(
            engine_command(settings), stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT, env=env,
            cwd=folder, start_new_session=True,
        )
    try:
        with closing(EngineApi(f"http://127.0.0.1:{settings.port}", "tiny", limit_s=LIMIT_S)) as api:
            yield Engine(wanted.name, api, folder, channel, log, process)
    finally:
        end_group(process)


def _await_ready(engine: Engine) -> None:
    def ready() -> bool:
        if engine.process.poll() is not None:
            raise RunError(f"{engine.name} ended with {engine.process.returncode}: {engine.log.read_text()[-3000:]}")
        with contextlib.suppress(RunError):
            return bool(engine.api.settings())
        return False

    wait_for(ready, limit_s=READY_LIMIT_S, what=f"{engine.name} to come up", every_s=0.5)


def command_beside(program: str) -> str:
    """A program that is installed beside the interpreter."""
    return str(Path(sys.executable).parent / program)


@contextmanager
def process(
    command: Sequence[str], log: Path, env: Mapping[str, str] | None = None
) -> Iterator["subprocess.Popen[bytes]"]:
    """A server beside the engines."""
    with log.open("wb") as sink:
        server = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT, start_new_session=True,
            env=python_env(env),
        )
    try:
        yield server
    finally:
        end_group(server)
