"""The proxies of the bench: how each is started before one engine, and why one is not here."""

import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import psutil

from testbed.clock import wait_for
from testbed.missing import Missing

START_LIMIT_S = 60.0
INSTALL_LIMIT_S = 900.0
VLLM_ROUTER = "vllm-router==0.1.17"

Command = Callable[[str, int, Path], list[str]]
"""From the engine's URL, a port to listen on and a folder for files: the command line."""


@dataclass(frozen=True)
class Proxy:
    """One that can be started here."""

    name: str
    version: str
    command: Command


@dataclass(frozen=True)
class Up:
    """One that listens. `pid` is the root of its processes."""

    url: str
    pid: int

    def cpu_s(self) -> float:
        """CPU time of all its processes so far."""
        root = psutil.Process(self.pid)
        times = [process.cpu_times() for process in [root, *root.children(recursive=True)]]
        return float(sum(time.user + time.system for time in times))


def ours() -> Proxy:
    """The router of this tree, with its journal on."""
    return Proxy("ours", "this tree", _ours)


def _ours(engine: str, port: int, folder: Path) -> list[str]:
    config = {
        "engines": [{"name": "e0", "url": engine}], "model": "stub", "port": port, "max_in_flight": 4096,
        "journal": str(folder / "events"),
    }
    (folder / "router.json").write_text(json.dumps(config))
    return [sys.executable, "-m", "testbed.router.serve", "--config", str(folder / "router.json")]


def vllm_router(folder: Path) -> Proxy | Missing:
    """vLLM's router, in an environment of its own below `folder`, made now if it is not there."""
    program = folder / "vllm-router" / "bin" / "vllm-router"
    if not program.exists():
        place = str(folder / "vllm-router")
        for step in (
            [sys.executable, "-m", "venv", "--clear", place],
            [f"{place}/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", VLLM_ROUTER],
        ):
            ran = subprocess.run(step, capture_output=True, text=True, timeout=INSTALL_LIMIT_S, check=False)
            if ran.returncode != 0:
                return Missing(f"{VLLM_ROUTER} can't be installed: {ran.stderr.strip()[-200:]}")
    version = VLLM_ROUTER.partition("==")[2]

    def command(engine: str, port: int, work: Path) -> list[str]:
        return [
            str(program), "--worker-urls", engine, "--policy", "round_robin", "--host", "127.0.0.1",
            "--port", str(port), "--prometheus-port", str(free_ports(1)[0]), "--log-level", "error",
        ]

    return Proxy("vllm-router", version, command)


def nginx(program: str | None) -> Proxy | Missing:
    """nginx with one worker and no buffering, from the path given or from PATH."""
    found = program if program is not None else shutil.which("nginx")
    if found is None:
        return Missing("there is no nginx program: apt-get install nginx, or --nginx PROGRAM")
    said = subprocess.run([found, "-v"], capture_output=True, text=True, timeout=20, check=True).stderr

    def command(engine: str, port: int, work: Path) -> list[str]:
        (work / "nginx.conf").write_text(_NGINX.format(folder=work, engine=urlsplit(engine).netloc, port=port))
        return [found, "-c", str(work / "nginx.conf"), "-p", str(work), "-e", str(work / "error.log")]

    return Proxy("nginx", said.strip().rpartition("/")[2], command)


_NGINX = """
daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{ worker_connections 4096; }}
http {{
  access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/f;
  uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  upstream engine {{ server {engine}; keepalive 512; }}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location / {{
      proxy_pass http://engine; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off;
    }}
  }}
}}
"""


def free_ports(count: int) -> list[int]:
    """Ports that nobody listened on a moment ago, all different."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [int(one.getsockname()[1]) for one in sockets]


@contextmanager
def running(proxy: Proxy, engine: str, port: int, folder: Path, core: int | None) -> Iterator[Up]:
    """The proxy on `core`, or on any; it serves when the block begins and is gone when it ends."""
    folder.mkdir(parents=True, exist_ok=True)
    pin = [] if core is None else ["taskset", "-c", str(core)]
    with (folder / "output.txt").open("w") as output:
        process = subprocess.Popen([*pin, *proxy.command(engine, port, folder)], stdout=output, stderr=output)
    try:
        url = f"http://127.0.0.1:{port}"
        wait_for(lambda: _serves(url), limit_s=START_LIMIT_S, what=f"{proxy.name} to serve")
        yield Up(url, process.pid)
    finally:
        process.terminate()
        process.wait(START_LIMIT_S)


def _serves(url: str) -> bool:
    body = {"model": "stub", "prompt": [1, 2, 3], "max_tokens": 1}
    try:
        return httpx.post(f"{url}/v1/completions", json=body, timeout=5.0, trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False
