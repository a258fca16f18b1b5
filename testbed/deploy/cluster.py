"""Find or start the Ray cluster, and connect to it.

An address that is given is joined. Without one we use a head of our own, held by a keeper process; a cluster that
somebody else runs on this machine is neither looked for nor touched.
"""

import importlib
import math
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, ModuleType

from testbed.clock import polls
from testbed.deploy.processes import alive, send
from testbed.deploy.ready import answers
from testbed.deploy.records import KeeperRecord, keeper_path, locked, read
from testbed.deploy.supervisor import SOURCES, tail
from testbed.errors import DeployError, RunError
from testbed.plan.component import DeploymentPlan

# Ray replaces 127.0.0.1 by the address of an interface, which may change or vanish; it leaves 127.0.0.2 alone.
LOOPBACK = "127.0.0.2"
NAMESPACE = "testbed"
# A socket's name has at most 107 bytes; Ray puts 64 of its own below its folder, whose name has 17.
TEMP_LENGTH = 107 - 64 - 17
START_LIMIT_S = 100.0
END_LIMIT_S = 30.0
ANSWER_LIMIT_S = 5.0
CALL_LIMIT_S = 60.0


@dataclass(frozen=True)
class Cluster:
    """Where Ray is. `own` means our keeper holds it."""

    address: str
    own: bool


def keeper_lock(state: Path) -> Path:
    """Held by who starts a head, and by the keeper while it decides to end."""
    return state / "keeper" / "lock"


def token_path(state: Path) -> Path:
    """The token that our head and its drivers share."""
    return state / "keeper" / "token"


def find(state: Path, plan: DeploymentPlan, address: str | None, talk: Callable[[str], None]) -> Cluster:
    """The cluster at `address`, or our own head, started if need be.

    Raises: DeployError if nobody answers at `address`, or our head does not start.
    """
    if address is not None:
        if not answers(address):
            raise DeployError(f"no Ray answers at {address}", where="--address",
                              hint="leave it out to start a Ray head of our own")
        return Cluster(address, own=False)
    elsewhere = os.environ.get("RAY_ADDRESS")
    if elsewhere:
        there = "a Ray" if answers(elsewhere) else "but no Ray"
        talk(f"RAY_ADDRESS is {elsewhere} ({there} answers there); it is not used without --address")
    with locked(keeper_lock(state)):
        address = _living_head(state, talk) or _start_head(state, plan, talk)
    return Cluster(address, own=True)


def _living_head(state: Path, talk: Callable[[str], None]) -> str | None:
    """The address of our head if it is well; what is left of one that is not gets ended."""
    record = read(keeper_path(state), KeeperRecord)
    if record is None:
        return None
    keeper_lives = alive(record.process)
    if keeper_lives and record.address and answers(record.address):
        return record.address
    reason = "does not answer" if keeper_lives else "has lost its keeper"
    talk(f"our Ray head at {record.address or 'an unknown address'} {reason}; starting another")
    end_head(state)
    return None


def end_head(state: Path) -> None:
    """End our own head, if there is one.

    Raises: DeployError if it does not end.
    """
    record = read(keeper_path(state), KeeperRecord)
    if record is None:
        return
    send(record.process, 15)
    for _ in polls(END_LIMIT_S, 0.05):
        if not alive(record.process):
            break
    else:
        raise DeployError(f"the keeper of our Ray head, process {record.process.pid}, does not end")
    keeper_path(state).unlink(missing_ok=True)


def _start_head(state: Path, plan: DeploymentPlan, talk: Callable[[str], None]) -> str:
    folder = keeper_path(state).parent
    log = folder / "keeper.log"
    temp = tempfile.gettempdir()
    if len(temp) > TEMP_LENGTH:
        raise DeployError(f"its name is over {TEMP_LENGTH} letters, too long for Ray's sockets", where=temp,
                          hint="set TMPDIR to a folder with a shorter name")
    talk("starting a Ray head")
    _ensure_token(state)
    cpus = max(os.cpu_count() or 1, math.ceil(sum(component.cpus for component in plan.components)))
    with log.open("ab") as output:
        subprocess.run(
            [sys.executable, "-m", "testbed.deploy.keeper", f"--state={state}", f"--cpus={cpus}"],
            stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=_head_environment(state), cwd=folder,
            check=True,
        )
    for waited_s in polls(START_LIMIT_S, 0.05):
        record = read(keeper_path(state), KeeperRecord)
        if record and record.address:
            return record.address
        if waited_s > ANSWER_LIMIT_S and (record is None or not alive(record.process)):
            break
    lines = [*tail(log, 3), *tail(folder / "head.log", 12)]
    raise DeployError("the Ray head did not start:\n" + "\n".join(lines), where=str(log))


def _ensure_token(state: Path) -> None:
    path = token_path(state)
    if not path.exists():
        path.touch(mode=0o600)
        path.write_text(secrets.token_hex(32))


def _head_environment(state: Path) -> dict[str, str]:
    """The caller's environment, with Ray made quiet, closed to others, and without workers that nobody asked for."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    path = [SOURCES, *inherited.get("PYTHONPATH", "").split(os.pathsep)]
    return {
        **inherited, **_token_environment(state),
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(part for part in path if part)),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_prestart_worker_first_driver": "0",
        "RAY_worker_niceness": "0",
        # Otherwise Ray hides all GPUs from a component that reserves none, such as a tier's server.
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    }


def _token_environment(state: Path) -> dict[str, str]:
    return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token_path(state))}


def connect(cluster: Cluster, state: Path) -> ModuleType:
    """Connect this process to the cluster, if it is not yet, and return ray.

    Raises: DeployError if Ray refuses.
    """
    if cluster.own:
        os.environ.update(_token_environment(state))
    # Imported late: Ray reads its settings from the environment on import, and most verbs do without it.
    ray = importlib.import_module("ray")
    if ray.is_initialized():
        if ray.get_runtime_context().gcs_address == cluster.address:
            return ray
        ray.shutdown()
    if cluster.own:
        _use_token()
    handler = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(address=cluster.address, namespace=NAMESPACE, log_to_driver=False, logging_level="ERROR")
    except (ConnectionError, RuntimeError, ray.exceptions.RayError) as problem:
        raise DeployError(f"can't join the Ray at {cluster.address}: {problem}") from problem
    _silence()
    _take_back(handler)
    return ray


def _take_back(handler: "Callable[[int, FrameType | None], object] | int | None") -> None:
    """Ray lets SIGTERM end a process with a code of its own: what we meant to do then would not be done."""
    if threading.current_thread() is threading.main_thread() and handler is not None:
        signal.signal(signal.SIGTERM, handler)


def _use_token() -> None:
    """Make Ray take the token now in the environment, also where it was imported or used before."""
    from ray._raylet import AuthenticationTokenLoader, Config

    Config.initialize("")
    AuthenticationTokenLoader.instance().reset_cache()


def _silence() -> None:
    """Stop the thread that prints what Ray says about its workers on our stdout, as Ray itself does when leaving."""
    from ray._private.worker import global_worker

    global_worker.threads_stopped.set()
    global_worker.gcs_error_subscriber.close()


def disconnect() -> None:
    """Leave the cluster, if we are in one; its head may end soon."""
    if "ray" in sys.modules:
        sys.modules["ray"].shutdown()


def call(ray: ModuleType, actor: str, method: str, *arguments: object, limit_s: float = CALL_LIMIT_S) -> object:
    """Call a method of a supervisor and return its result.

    Raises: RunError, naming the actor, if it is not there, does not answer, or refuses.
    """
    try:
        handle = ray.get_actor(actor, namespace=NAMESPACE)
        return ray.get(getattr(handle, method).remote(*arguments), timeout=limit_s)
    except ray.exceptions.RayTaskError as problem:
        raise RunError(f"{method}: {problem.cause}", where=actor) from problem
    except (ValueError, ray.exceptions.RayError) as problem:
        raise RunError(f"its supervisor does not answer: {str(problem).splitlines()[0]}", where=actor) from problem
