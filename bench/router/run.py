"""`python -m bench.router.run`: what each proxy adds, as ratios within one run; `make bench-router` calls it.

The proxy has the first core for itself; client and stand-in engine share the second, as they do without a proxy. All
take turns, round by round, so that a disturbance of the machine meets them all alike.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from bench.router.load import Measured
from bench.router.proxies import Proxy, Up, free_ports, nginx, ours, running, vllm_router
from bench.router.table import markdown
from testbed.clock import wall_time_text
from testbed.missing import Missing
from testbed.stub.process import running_stub

DIRECT = "direct"
RATE = 100.0
PACED_CONNECTIONS = 64
CLOSED_CONNECTIONS = 64
STUB = ("--ttft-ms", "2", "--itl-ms", "2", "--log", "none", "--token-ids", "asked")


@dataclass
class Found:
    """The rounds of one way to the engine. `cpu_us` is of the proxy, for one stream."""

    version: str = "-"
    first_p50_ms: list[float] = field(default_factory=list)
    first_p99_ms: list[float] = field(default_factory=list)
    streams_per_s: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)
    broken: int = 0
    not_sent: int = 0
    problem: str | None = None


def talk(text: str) -> None:
    """Progress on stderr."""
    print(text, file=sys.stderr, flush=True)


def load(url: str, core: int | None, *, seconds: float, connections: int, rate: float | None) -> Measured:
    """One run of the client."""
    command = [
        sys.executable, "-m", "bench.router.load", "--url", url, "--seconds", str(seconds),
        "--connections", str(connections), *([] if rate is None else ["--rate", str(rate)]),
    ]
    pin = [] if core is None else ["taskset", "-c", str(core)]
    ran = subprocess.run([*pin, *command], capture_output=True, text=True, timeout=seconds + 60, check=True)
    return Measured(**json.loads(ran.stdout))


def quantile(values: Sequence[float], q: float) -> float:
    """Linear between the neighbours of rank (n - 1) q."""
    ordered = sorted(values)
    rank = (len(ordered) - 1) * q
    low, high = ordered[int(rank)], ordered[min(int(rank) + 1, len(ordered) - 1)]
    return low + (high - low) * (rank - int(rank))


def one_round(url: str, up: Up | None, found: Found, core: int | None, seconds: float) -> None:
    """Latency at a low rate, then as many streams as go through."""
    paced = load(url, core, seconds=seconds, connections=PACED_CONNECTIONS, rate=RATE)
    before_s = up.cpu_s() if up is not None else 0.0
    closed = load(url, core, seconds=seconds, connections=CLOSED_CONNECTIONS, rate=None)
    found.first_p50_ms.append(quantile(paced.first_ms, 0.5))
    found.first_p99_ms.append(quantile(paced.first_ms, 0.99))
    found.streams_per_s.append(closed.whole / closed.seconds)
    found.broken += paced.broken + closed.broken
    found.not_sent += paced.not_sent
    if up is not None:
        found.cpu_us.append((up.cpu_s() - before_s) / closed.whole * 1e6)


def race(proxies: Sequence[Proxy], folder: Path, *, rounds: int, seconds: float) -> dict[str, Found]:
    """All ways in turn, `rounds` times."""
    cores = sorted(os.sched_getaffinity(0))
    proxy_core, core = (cores[0], cores[1]) if len(cores) > 1 else (None, None)
    found = {DIRECT: Found(), **{proxy.name: Found(version=proxy.version) for proxy in proxies}}
    ports = free_ports(len(proxies))
    pin = ("--cores", str(core)) if core is not None else ()
    with ExitStack() as stack:
        engine = stack.enter_context(running_stub(*STUB, *pin)).base_url
        ways: dict[str, tuple[str, Up | None]] = {DIRECT: (engine, None)}
        for proxy, port in zip(proxies, ports, strict=True):
            up = stack.enter_context(running(proxy, engine, port, folder / proxy.name, proxy_core))
            ways[proxy.name] = (up.url, up)
        for number in range(rounds):
            talk(f"round {number + 1} of {rounds}")
            for name, (url, way) in ways.items():
                one_round(url, way, found[name], core, seconds)
    return found


def machine() -> dict[str, str]:
    """What the figures are of."""
    return {
        "cores": str(len(os.sched_getaffinity(0))), "system": f"{platform.system()} {platform.machine()}",
        "Python": platform.python_version(),
        "load of the machine before": " ".join(f"{value:.1f}" for value in os.getloadavg()),
    }


def summary(found: Mapping[str, Found]) -> dict[str, dict[str, object]]:
    """The medians of each way, and what it adds to the direct one within the same round."""
    direct = found[DIRECT]
    lines: dict[str, dict[str, object]] = {}
    for name, one in found.items():
        lines[name] = {"version": one.version, "problem": one.problem}
        if one.problem is not None:
            continue
        pairs = {"p50": (one.first_p50_ms, direct.first_p50_ms), "p99": (one.first_p99_ms, direct.first_p99_ms)}
        for key, (values, without) in pairs.items():
            added = [value - bare for value, bare in zip(values, without, strict=True)]
            lines[name] |= {f"first_{key}_ms": median(values), f"added_{key}_ms": median(added)}
        share = [value / bare for value, bare in zip(one.streams_per_s, direct.streams_per_s, strict=True)]
        lines[name] |= {
            "streams_per_s": median(one.streams_per_s), "streams_ratio": median(share), "broken": one.broken,
            "not_sent": one.not_sent,
            "cpu_us": median(one.cpu_us) if one.cpu_us else None,
        }
    return lines


def main(arguments: list[str]) -> None:
    """Run the bench, and write page and figures."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "testbed" / "bench-router"
    parser = argparse.ArgumentParser(prog="python -m bench.router.run", description=__doc__)
    parser.add_argument("--folder", type=Path, default=cache, help="where vllm-router is installed")
    parser.add_argument("--nginx", help="an nginx program that is not on PATH")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each of the two loads of a round")
    parser.add_argument("--out", type=Path, default=Path("docs/bench-router.md"), help="the page; figures go beside it")
    asked = parser.parse_args(arguments)
    asked.folder.mkdir(parents=True, exist_ok=True)
    facts = machine()
    known = {"ours": ours(), "vllm-router": vllm_router(asked.folder), "nginx": nginx(asked.nginx)}
    here = [proxy for proxy in known.values() if not isinstance(proxy, Missing)]
    with TemporaryDirectory() as folder:
        found = race(here, Path(folder), rounds=asked.rounds, seconds=asked.seconds)
    for name, proxy in known.items():
        if isinstance(proxy, Missing):
            found[name] = Found(problem=proxy.reason)
    figures = {
        "created": wall_time_text(), "machine": facts, "rounds": asked.rounds, "seconds": asked.seconds,
        "ways": summary(found),
    }
    asked.out.with_suffix(".json").write_text(json.dumps(figures, indent=1) + "\n")
    asked.out.write_text(markdown(figures))
    print(asked.out.read_text())


if __name__ == "__main__":
    main(sys.argv[1:])
