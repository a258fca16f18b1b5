"""`testbed load`: drive any OpenAI-compatible server by itself, and judge what came of it."""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import typer

from testbed.cli.load_flags import LoadFlags, described_numbers, extra_body, percentiles, split_words, verb_of
from testbed.cli.talk import talk
from testbed.errors import DeployError, SpecError

if TYPE_CHECKING:
    from testbed.drive.endpoint import Endpoint
    from testbed.experiment.load_plan import Asked, Load, Traffic
    from testbed.experiment.loading import LoadStop

FILE = "bench.json"
"""What the JSON of vllm bench is called in the folder of the run."""


def _load(flags: LoadFlags) -> int:
    """Drive a server that is there already, open loop, and judge the load; the exit code is the verdict."""
    asked, drain = _asked(flags), _drains(flags)
    key = _key(flags.api_key_env)
    from testbed.drive.endpoint import Endpoint
    from testbed.experiment.asking import ask_models
    from testbed.experiment.load_plan import plan_lines, plan_load

    served = ask_models(Endpoint(asked.url, "", key, asked.extra_body))
    load = plan_load(asked, served)
    endpoint = Endpoint(asked.url, load.model, key, asked.extra_body)
    for line in plan_lines(load):
        talk(line)
    from testbed.experiment.greeting import greet

    greet(load, endpoint, served, flags.num_warmups, talk)
    return _drive(load, endpoint, flags, drain=drain)


def _drive(load: "Load", endpoint: "Endpoint", flags: LoadFlags, *, drain: bool) -> int:
    """Send it all, and judge it."""
    from testbed.cli.live import live_view
    from testbed.drive.options import DriveOptions
    from testbed.experiment.folders import default_folders
    from testbed.experiment.loading import LoadStop, Watcher, run_load

    stop = LoadStop(drain=drain)
    options = DriveOptions(
        workers=flags.workers, max_concurrency=load.facts.max_concurrency, wording=load.prompts.wording,
        keep_in_flight_on_stop=drain, should_drop=lambda: stop.drop,
    )
    schedule_s = None if load.facts.arrival == "closed" else load.planned.duration_s
    with _interrupts(stop), live_view(f"load {load.workload.name} to {load.facts.url}", schedule_s) as view:
        folder = run_load(
            load, endpoint, options, default_folders(flags.results), stop=stop, talk=talk,
            watcher=Watcher(view.began, view),
        )
    code = _tell(folder, flags)
    return 130 if stop.asked else code


load = verb_of(_load)


def _asked(flags: LoadFlags) -> "Asked":
    name, limits = split_words(flags.words if flags.words else [], bool(flags.goodput))
    if flags.results.exists() and not flags.results.is_dir():
        raise SpecError("is a file, not a folder for results", where=str(flags.results))
    from testbed.experiment.asking import normal_url
    from testbed.experiment.load_plan import Asked

    return Asked(
        url=normal_url(flags.url), traffic=_traffic(flags, name), path=flags.endpoint, model=flags.model,
        seed=flags.seed, tokenizer=flags.tokenizer, vocab_size=flags.vocab_size, send_text=flags.send_text,
        max_concurrency=flags.max_concurrency, workers=flags.workers,
        goodput=[*(flags.goodput if flags.goodput else []), *limits], extra_body=extra_body(flags), label=flags.label,
        percentile_metrics=_metric_names(flags), percentiles=percentiles(flags),
    )


def _traffic(flags: LoadFlags, name: str | None) -> "Traffic":
    """The workload that is named, with its settings, or else the one that the flags describe."""
    from testbed.experiment.load_plan import traffic_of_file, traffic_of_flags
    from testbed.spec.load import parse_setting
    from testbed.workload.described import Described, RampUp

    settings = flags.settings if flags.settings else []
    numbers = described_numbers(flags, name)
    if name is not None:
        return traffic_of_file(name, dict(parse_setting(text) for text in settings))
    if settings:
        raise SpecError("changes a WORKLOAD, and none is named", where="--set")
    ramp = numbers.pop("ramp_up", None)
    return traffic_of_flags(Described(**numbers, ramp_up=None if ramp is None else RampUp(*ramp)))


def _metric_names(flags: LoadFlags) -> tuple[str, ...]:
    from testbed.report.bench_json import METRICS

    names = tuple(word.strip() for word in flags.percentile_metrics.split(","))
    odd = [name for name in names if name not in METRICS]
    if odd:
        known = f"known are {', '.join(METRICS)}"
        raise SpecError(f"{odd[0]!r} is not known", where="--percentile-metrics", hint=known)
    return names


def _drains(flags: LoadFlags) -> bool:
    if flags.on_interrupt not in ("drop", "drain"):
        raise SpecError(f"is {flags.on_interrupt!r}; drop and drain are known", where="--on-interrupt")
    return flags.on_interrupt == "drain"


def _key(name: str | None) -> str | None:
    if name is None:
        return None
    key = os.environ.get(name)
    if not key:
        # The name is not repeated: who takes this flag for --api-key has written the key itself.
        raise SpecError("there is no variable of this name, or it is empty", where="--api-key-env")
    return key


@contextmanager
def _interrupts(stop: "LoadStop") -> Iterator[None]:
    """Within it Ctrl-C ends the load in order; what was measured is kept."""
    def asked(signum: int, frame: FrameType | None) -> None:
        talk(stop.wording())
        stop.ask()

    previous = signal.signal(signal.SIGINT, asked)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


def _tell(folder: Path, flags: LoadFlags) -> int:
    """Judge the run, write its JSON, print the summary; the exit code is the verdict."""
    from testbed.checks.runner import check_analysis, exit_code
    from testbed.journal.run import open_run
    from testbed.metrics.analysis import Analysis
    from testbed.metrics.table import summarise_analysis
    from testbed.report.bench_json import bench_json
    from testbed.report.load_summary import load_summary

    run = open_run(folder)
    analysis = Analysis(run)
    verdicts, rows = check_analysis(analysis), summarise_analysis(analysis)
    content = bench_json(analysis, verdicts, rows, detailed=flags.save_detailed)
    for path in (folder / FILE, *_saved(flags, content)):
        _write_json(path, content)
        talk(f"JSON as vllm bench writes it: {path}")
    if flags.as_json:
        typer.echo(json.dumps(content, allow_nan=False))
    else:
        from rich.console import Console

        Console().print(load_summary(analysis, verdicts, rows))
    talk(f"the run is in {folder}")
    return exit_code(verdicts, run)


def _saved(flags: LoadFlags, content: dict[str, Any]) -> Iterator[Path]:
    """Where vllm bench would write its file, if that is wanted too."""
    from testbed.report.bench_json import file_name

    if not (flags.save_result or flags.result_dir or flags.result_filename):
        return
    folder = flags.result_dir if flags.result_dir is not None else Path()
    yield folder / (flags.result_filename if flags.result_filename is not None else file_name(content))


def _write_json(path: Path, content: dict[str, Any]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content, allow_nan=False) + "\n", encoding="utf-8")
    except OSError as problem:
        raise DeployError(f"can't be written: {problem.strerror}", where=str(path)) from problem
