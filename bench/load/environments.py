"""A throw-away environment for each tool, kept in one folder; what can't be installed is said and left out."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from bench.load.tool import Tool
from testbed.missing import Missing

LIMIT_S = 1_500.0
_DONE = "installed.txt"


def environment(tool: Tool, folder: Path, talk: Callable[[str], None]) -> Path | Missing:
    """The interpreter of the tool's environment, made now if it is not there; our own if it needs none."""
    if not tool.packages:
        return Path(sys.executable)
    place = folder / tool.name.replace(" ", "-")
    python = place / "bin" / "python"
    wanted = " ".join(tool.packages)
    done = place / _DONE
    if done.is_file() and done.read_text() == wanted:
        return python
    base = interpreter(tool.python)
    if base is None:
        return Missing(f"it needs {tool.python}, which is not here")
    talk(f"installing {wanted} in {place}; this may take minutes")
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *tool.packages]
    failed = _run([base, "-m", "venv", "--clear", str(place)])
    if failed is None:
        failed = _run(install)
    if failed is not None:
        return Missing(f"{wanted} can't be installed here: {failed}")
    done.write_text(wanted)
    return python


def interpreter(name: str) -> str | None:
    """One that starts: on the path, or kept by pyenv, whose stand-in on the path may lead nowhere."""
    kept = sorted(Path.home().glob(f".pyenv/versions/*/bin/{name}"))
    found = [path for path in (shutil.which(name), *map(str, kept)) if path is not None]
    return next((path for path in found if _run([path, "--version"]) is None), None)


def _run(command: list[str]) -> str | None:
    """None when it went well, else the last line that it said."""
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as problem:
        return str(problem)
    said = ran.stderr.strip().splitlines()
    return None if ran.returncode == 0 else said[-1] if said else f"status {ran.returncode}"


def package_version(python: Path, package: str) -> str:
    """The version of one installed package."""
    code = f"from importlib.metadata import version; print(version({package!r}))"
    ran = subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    return ran.stdout.strip()
