"""`python -m bench.load.run`: all tools side by side; `make bench-load` calls it.

The tools take turns, one whole repeat after the other, so that a disturbance of the machine meets them all alike.
"""

import argparse
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import psutil

from bench.load.environments import environment
from bench.load.lines import BURST, LAG_RATES, Bench, Extent, measure
from bench.load.measure import Installed, Placement
from bench.load.results import BenchResult, ToolResult, middle, write
from bench.load.table import markdown
from bench.load.tokenizer import make_tokenizer
from bench.load.tool import Tool
from bench.load.tools.aiperf import Aiperf
from bench.load.tools.guidellm import Guidellm
from bench.load.tools.inference_perf import InferencePerf
from bench.load.tools.locust import Locust
from bench.load.tools.ours import Ours
from bench.load.tools.vllm_bench import VllmBench
from testbed.clock import now_s, wall_time_text
from testbed.engines.processor import read_processor
from testbed.missing import Missing
from testbed.stub.process import running_stub

CEILING_S = 4
_BEGAN_S = now_s()


def talk(text: str) -> None:
    """Progress on stderr."""
    print(f"[{now_s() - _BEGAN_S:6.0f} s] {text}", file=sys.stderr, flush=True)


def placements(names: Sequence[str]) -> list[Placement]:
    """Pinned: the client on the first core, the stand-in on the second. Unpinned: both on all."""
    cores = sorted(os.sched_getaffinity(0))
    known = {"unpinned": Placement("unpinned")}
    if len(cores) > 1:
        known["pinned"] = Placement("pinned", (cores[0],), (cores[1],))
    return [known[name] for name in names if name in known]


def _words(placement: Placement) -> str:
    return "client and stand-in have a core each" if placement.client_cores else "client and stand-in share all cores"


def machine() -> dict[str, str]:
    """What the figures are of."""
    processor = read_processor()
    memory_gib = psutil.virtual_memory().total / 2**30
    return {
        "processor": f"{processor.name}, {processor.cores} cores", "memory": f"{memory_gib:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}", "Python": platform.python_version(),
        "load of the machine before": " ".join(f"{value:.1f}" for value in os.getloadavg()),
    }


def stub_ceiling_rps(folder: Path, placement: Placement) -> float | None:
    """What the stand-in serves to wrk, which only reads; None where there is no wrk."""
    wrk = shutil.which("wrk")
    if wrk is None:
        talk("there is no wrk, so what the stand-in can serve at most is not known")
        return None
    script = folder / "post.lua"
    script.write_text(
        'wrk.method = "POST"\nwrk.headers["Content-Type"] = "application/json"\n'
        'wrk.body = \'{"model":"stub","prompt":[1,2,3,4,5,6,7,8],"max_tokens":8,"stream":true}\'\n'
    )
    cores = ("--cores", ",".join(map(str, placement.stub_cores))) if placement.stub_cores else ()
    pin = ["taskset", "-c", ",".join(map(str, placement.client_cores))] if placement.client_cores else []
    with running_stub(*BURST, "--token-ids", "asked", "--log", "counts", *cores) as stub:
        command = [*pin, wrk, "-t", "1", "-c", "32", "-d", f"{CEILING_S}s", "-s", str(script)]
        ran = subprocess.run([*command, f"{stub.base_url}/v1/completions"], capture_output=True, text=True, timeout=60)
    found = [line.split()[1] for line in ran.stdout.splitlines() if line.startswith("Requests/sec:")]
    return float(found[0]) if found else None


class Race:
    """All tools in all placements, as far as they have come."""

    def __init__(self, folder: Path, tools: Sequence[Tool], where: Sequence[Placement]) -> None:
        self._tokenizer = make_tokenizer(folder / "tokenizer")
        self.entries: list[tuple[Installed | None, Placement, ToolResult]] = []
        for tool in tools:
            python = environment(tool, folder, talk)
            version = "-" if isinstance(python, Missing) else tool.version(python)
            for placement in where:
                found = ToolResult(tool=tool.name, version=version, placement=placement.name, gap="itl")
                if isinstance(python, Missing):
                    found.problem = python.reason
                    talk(f"{tool.name} is left out: {python.reason}")
                what = None if isinstance(python, Missing) else Installed(tool, python)
                self.entries.append((what, placement, found))

    def repeat(self, number: int, fewer: Sequence[str], fewer_repeats: int) -> None:
        """Measure everything once more; memory, which changes little, the first time alone."""
        for what, placement, found in self.entries:
            if what is None or (what.tool.name in fewer and number >= fewer_repeats):
                continue
            pinned = placement.name == "pinned"
            extent = Extent(LAG_RATES if pinned else LAG_RATES[-1:], costs=pinned, memory=pinned and number == 0)
            bench = Bench(what, placement, self._tokenizer, talk)
            known = middle(found.repeats, "highest_rps")
            is_known = not isinstance(known, Missing)
            first_rps = what.tool.first_rps if isinstance(known, Missing) else known
            values = measure(bench, first_rps, narrow=is_known, extent=extent)
            found.repeats.append({
                name: value.reason if isinstance(value, Missing) else value for name, value in values.items()
            })


def known_tools() -> dict[str, Tool]:
    """By the name for the command line, in the order of the table."""
    return {
        "ours": Ours(), "vllm": VllmBench(), "guidellm": Guidellm(), "aiperf": Aiperf(),
        "inference-perf": InferencePerf(), "locust": Locust(),
    }


def main(arguments: list[str]) -> None:
    """Run the bench, and write page and figures."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "testbed" / "bench-load"
    tools = known_tools()
    parser = argparse.ArgumentParser(prog="python -m bench.load.run", description=__doc__)
    parser.add_argument("--folder", type=Path, default=cache, help="where the tools are installed")
    parser.add_argument("--tools", nargs="+", choices=tools, default=list(tools))
    parser.add_argument("--placements", nargs="+", choices=["pinned", "unpinned"], default=["pinned", "unpinned"])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--fewer", nargs="*", choices=tools, default=[], help="these are slow: not in all repeats")
    parser.add_argument("--fewer-repeats", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="each once")
    parser.add_argument("--out", type=Path, default=Path("docs/bench-load.md"), help="the page; figures go beside it")
    asked = parser.parse_args(arguments)
    where = placements(asked.placements)
    asked.folder.mkdir(parents=True, exist_ok=True)
    facts = machine()
    race = Race(asked.folder, [tools[name] for name in asked.tools], where)
    result = BenchResult(
        created=wall_time_text(), machine=facts, command=" ".join(["python -m bench.load.run", *arguments]),
        placements={one.name: _words(one) for one in where}, tools=[found for _, _, found in race.entries],
        stub_ceiling_rps=stub_ceiling_rps(asked.folder, where[0]),
    )
    for number in range(1 if asked.quick else asked.repeats):
        talk(f"repeat {number + 1}")
        race.repeat(number, [tools[name].name for name in asked.fewer], asked.fewer_repeats)
        write(asked.out.with_suffix(".json"), result)
        asked.out.write_text(markdown(result))
    print(f"written to {asked.out}")


if __name__ == "__main__":
    main(sys.argv[1:])
