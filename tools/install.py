"""`make setup`: a virtual environment with everything in it, from the lock files. Standard library only.

Each step keeps a stamp in the environment: the hash of what it depends on. What is done already is skipped.
"""

import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.pip_settings import pip_settings, uv_sources

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMPS = VENV / "testbed-setup.json"
LOCKS = ("requirements/cpu.lock.txt", "requirements/dev.lock.txt")
TORCH = "requirements/overrides.txt"
# Where PyTorch publishes its CPU builds; asked only where pip does not find one by itself.
TORCH_INDEX = "https://download.pytorch.org/whl/cpu"
# Only Mooncake's library needs these; they are package names of Debian and Ubuntu, and the libraries they bring.
SYSTEM_LIBRARIES = {"libibverbs1": "libibverbs.so.1", "librdmacm1": "librdmacm.so.1", "libnuma1": "libnuma.so.1"}


class SetupError(Exception):
    """What stopped the set-up, in one line."""


@dataclass(frozen=True)
class Step:
    """One part of the set-up; done again when one of its `files` has changed."""

    name: str
    files: tuple[str, ...]
    work: Callable[[], None]

    def key(self) -> str:
        """What the step depends on: the files, and where the environment stands."""
        digest = hashlib.sha256(f"{VENV}\n{sys.version}".encode())
        for file in self.files:
            digest.update((ROOT / file).read_bytes())
        return digest.hexdigest()


def environment() -> dict[str, str]:
    """Ours, but with bytecode: without it each engine process imports for half a minute at every start."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "UV_LINK_MODE": "copy", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


def call(*command: str) -> bool:
    """Run a command in the repository; its output is shown as it comes."""
    return subprocess.run(command, cwd=ROOT, env=environment(), check=False).returncode == 0


def pip_install(*arguments: str) -> bool:
    """`pip install` into the environment, without any dependency that the locks do not name."""
    return call(str(PYTHON), "-m", "pip", "install", "--quiet", "--no-deps", *arguments)


def need(done: bool, message: str) -> None:
    """Raises: SetupError unless `done`."""
    if not done:
        raise SetupError(message)


def make_venv() -> None:
    """A fresh environment; one that is there and works is kept."""
    if PYTHON.is_file() and subprocess.run([PYTHON, "-m", "pip", "--version"], capture_output=True).returncode == 0:
        return
    made = call(sys.executable, "-m", "venv", "--clear", str(VENV))
    need(made, "python can't make a virtual environment; on Debian and Ubuntu: apt-get install python3.11-venv")


def install_torch() -> None:
    """The CPU build of torch, which PyPI does not have."""
    if not pip_install("-r", TORCH):
        print(f"  pip did not find it by itself; trying {TORCH_INDEX}", flush=True)
        need(pip_install("--index-url", TORCH_INDEX, "-r", TORCH), "torch can't be installed; see pip's lines above")


def install_packages() -> None:
    """All other pins: by uv, which takes a third of pip's time, or else by pip."""
    files = [part for lock in LOCKS for part in ("-r", lock)]
    sources = uv_sources(pip_settings(str(PYTHON)))
    uv = str(VENV / "bin" / "uv")
    by_uv = pip_install("-r", "requirements/uv.txt") and call(
        uv, "pip", "install", "--python", str(PYTHON), "--no-deps", "--compile-bytecode", *sources, *files
    )
    if not by_uv:
        print("  uv could not do it; trying pip, which takes some minutes", flush=True)
        need(pip_install(*files), "the packages can't be installed; see pip's lines above")


def install_project() -> None:
    """testbed itself, from this working tree, and its command."""
    need(pip_install("--no-build-isolation", "--editable", "."), "testbed itself can't be installed")


def install_libraries() -> None:
    """Mooncake's system libraries, where that takes no more than asking; nothing else needs them."""
    missing = [name for name, library in SYSTEM_LIBRARIES.items() if not is_loadable(library)]
    if not missing:
        return
    by_hand = f"  missing, and only Mooncake needs them: {' '.join(missing)}"
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        print(f"{by_hand} (apt-get install, as root)", flush=True)
    elif not (call("apt-get", "update", "-qq") and call("apt-get", "install", "-y", "-qq", *missing)):
        print(f"{by_hand} (apt-get could not install them)", flush=True)


def is_loadable(library: str) -> bool:
    """True if the dynamic linker knows the library."""
    script = f"import ctypes; ctypes.CDLL({library!r})"
    return subprocess.run([sys.executable, "-c", script], capture_output=True).returncode == 0


STEPS = (
    Step("virtual environment", (), make_venv),
    Step("torch for CPUs (190 MB)", (TORCH,), install_torch),
    Step("packages (3 GB on disk; one to three minutes)", (*LOCKS, "requirements/uv.txt"), install_packages),
    Step("testbed itself", ("pyproject.toml",), install_project),
    Step("system libraries", (), install_libraries),
)


def read_stamps() -> dict[str, str]:
    """The keys of the steps that are done; none where the environment does not work or is a copy."""
    if not (STAMPS.is_file() and PYTHON.exists()):
        return {}
    stamps: dict[str, str] = json.loads(STAMPS.read_text())
    return stamps


def run_steps(steps: Sequence[Step]) -> None:
    """Do what is not done, in order, with a line each."""
    began = time.monotonic()
    stamps = read_stamps()
    for number, step in enumerate(steps, start=1):
        key = step.key()
        if stamps.get(step.name) == key:
            continue
        print(f"[{number}/{len(steps)}] {step.name} ...", flush=True)
        step_began = time.monotonic()
        step.work()
        stamps[step.name] = key
        STAMPS.write_text(json.dumps(stamps, indent=2) + "\n")
        print(f"[{number}/{len(steps)}] {step.name}: {time.monotonic() - step_began:.0f} s", flush=True)
    print(f"setup: ready after {time.monotonic() - began:.1f} s", flush=True)


def check_machine() -> None:
    """Raises: SetupError where the locks do not fit this Python or this machine."""
    if sys.version_info[:2] != (3, 11):
        found = platform.python_version()
        raise SetupError(f"the locks are for Python 3.11, this is {found}; name another: make setup PYTHON=python3.11")
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise SetupError(f"the locks are for Linux on x86_64, this is {platform.system()} on {platform.machine()}")


def main() -> int:
    """Set up, or say in one line what stops it."""
    try:
        check_machine()
        run_steps(STEPS)
    except SetupError as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        print("setup: interrupted; make setup goes on from here", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
