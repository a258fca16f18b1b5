"""From what was asked on the command line, and what the server says of itself, to all that one load will send."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from testbed.errors import SpecError
from testbed.experiment.asking import Served, choose_model, is_stand_in
from testbed.experiment.prompts import Prompts, make_prompts
from testbed.experiment.specs import find_spec, read_spec, trace_of
from testbed.experiment.traces import token_counter
from testbed.journal.manifest import LoadFacts
from testbed.missing import Missing
from testbed.spec.arrival import Closed
from testbed.spec.goodput import AnswerLimits, answer_limits
from testbed.spec.load import written
from testbed.spec.workload import Workload
from testbed.workload.described import ASSUMED_DECODE_S, Described, arrival_of, as_written, described_workload
from testbed.workload.mixed import WorkloadPlan, plan_requests
from testbed.workload.trace.plan import TracePlan, TraceSetting, plan_trace
from testbed.workload.trace.records import TraceRecords

_SECRET = re.compile(r"api_?key|secret|passw|auth|credential", re.IGNORECASE)

CHAT_PATH = "/v1/chat/completions"
PATHS = ("/v1/completions", CHAT_PATH)
ENDLESS_CONTEXT = 10_000_000
"""Stands for a context whose length the server does not tell: nothing is cut, and it refuses what is too long."""


@dataclass(frozen=True)
class Traffic:
    """A workload, its text with all settings, and where it comes from: the numbers that describe it, or a name.

    `trace` is what it plays, where it plays one.
    """

    workload: Workload
    text: str
    described: Described | None = None
    name: str | None = None
    trace: TraceRecords | None = None


@dataclass(frozen=True)
class Asked:
    """What was asked beside the traffic. `goodput` has the words after --goodput."""

    url: str
    traffic: Traffic
    path: str = PATHS[0]
    model: str | None = None
    seed: int = 0
    tokenizer: Path | None = None
    vocab_size: int | None = None
    send_text: bool = False
    max_concurrency: int | None = None
    workers: int = 1
    goodput: Sequence[str] = ()
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    label: str | None = None
    percentile_metrics: tuple[str, ...] = ("ttft", "tpot", "itl", "e2el")
    percentiles: tuple[float, ...] = (99.0,)


@dataclass(frozen=True)
class Load:
    """All that one load is, decided before anything is sent. `text` is the workload as it reads with all settings.

    `trace_lines` tell what became of a trace.
    """

    workload: Workload
    planned: WorkloadPlan
    prompts: Prompts
    text: str
    seed: int
    model: str
    facts: LoadFacts
    limits: Mapping[str, AnswerLimits]
    stand_in: bool = False
    trace_lines: tuple[str, ...] = ()


def traffic_of_file(name: str, settings: Mapping[str, Any]) -> Traffic:
    """The workload of a file of configs/workloads, or of a path.

    Raises: SpecError
    """
    path = find_spec(name, "workloads", beside=None, where="testbed load")
    read = read_spec(path, Workload, settings)
    return Traffic(read.value, read.text, name=name, trace=trace_of(read.value, path))


def traffic_of_flags(described: Described) -> Traffic:
    """The workload that a few numbers describe.

    Raises: SpecError
    """
    workload = described_workload(described)
    return Traffic(workload, written(workload.model_dump(mode="json", exclude_none=True, by_alias=True)), described)


def plan_load(asked: Asked, served: Served | Missing) -> Load:
    """All that will be sent.

    Raises: SpecError for what contradicts itself, or what the server does not have.
    """
    workload = asked.traffic.workload
    model = choose_model(asked.model, served)
    if asked.path not in PATHS:
        raise SpecError(f"is {asked.path!r}", where="--endpoint", hint=f"known are {' and '.join(PATHS)}")
    prompts = make_prompts(
        chat=asked.path == CHAT_PATH, text=asked.send_text, tokenizer=asked.tokenizer, vocab_size=asked.vocab_size,
        seed=asked.seed,
    )
    context = served if isinstance(served, Missing) else served.context(model)
    recorded = _recorded(asked, prompts, context)
    planned = _planned(workload, prompts, asked.seed, context) if recorded is None else recorded.workload
    if not planned.requests:
        raise SpecError("not one request falls into its duration", where=f"workload {workload.name}")
    classes = sorted({one.traffic_class for one in planned.requests}) if recorded else workload.class_names
    return Load(
        workload=workload, planned=planned, prompts=prompts, text=asked.traffic.text, seed=asked.seed, model=model,
        facts=_facts(asked, prompts), limits=answer_limits(asked.goodput, classes), stand_in=is_stand_in(served),
        trace_lines=() if recorded is None else recorded.lines,
    )


def _recorded(asked: Asked, prompts: Prompts, context: int | Missing) -> TracePlan | None:
    """The requests of the trace that is played; None where traffic comes by class."""
    spec, trace = asked.traffic.workload.trace, asked.traffic.trace
    if spec is None or trace is None:
        return None
    count = None if asked.tokenizer is None else token_counter(asked.tokenizer)
    room = _room(prompts, context)
    return plan_trace(spec, trace, TraceSetting(
        asked.traffic.workload.name, asked.seed, prompts.tokens, room, ASSUMED_DECODE_S, count
    ))


def _planned(workload: Workload, prompts: Prompts, seed: int, context: int | Missing) -> WorkloadPlan:
    return plan_requests(
        workload, seed=seed, scale=as_written(workload), tokens=prompts.tokens, max_model_len=_room(prompts, context)
    )


def _room(prompts: Prompts, context: int | Missing) -> int:
    """Lengths in words say little of the context, so nothing is cut by it then."""
    return ENDLESS_CONTEXT if isinstance(context, Missing) or prompts.lengths != "tokens" else context


def _facts(asked: Asked, prompts: Prompts) -> LoadFacts:
    described, arrival = asked.traffic.described, asked.traffic.workload.arrival
    cap = asked.max_concurrency
    if isinstance(arrival, Closed):
        if cap is not None and cap != arrival.concurrency:
            raise SpecError(f"is {cap}, but the closed loop has {arrival.concurrency}", where="--max-concurrency")
        cap = arrival.concurrency
    closed = "closed" if isinstance(arrival, Closed) else "workload"
    return LoadFacts(
        url=asked.url, path=asked.path, prompts=prompts.form, lengths=prompts.lengths,
        tokenizer=None if asked.tokenizer is None else asked.tokenizer.name, workload=asked.traffic.name,
        max_concurrency=cap, workers=asked.workers, extra_body=_shown(asked.extra_body), label=asked.label,
        percentile_metrics=asked.percentile_metrics, percentiles=asked.percentiles,
        **({"arrival": closed} if described is None else _arrival_facts(described)),
    )


def _shown(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields as a file may keep them."""
    return {name: "(not kept)" if _SECRET.search(name) else value for name, value in fields.items()}


def _arrival_facts(described: Described) -> dict[str, Any]:
    """How requests arrive, under the names of LoadFacts."""
    ramp, process = described.ramp_up, arrival_of(described).process
    if ramp is not None:
        return {
            "arrival": "ramp", "burstiness": described.burstiness, "ramp_up_strategy": ramp.strategy,
            "ramp_up_start_rps": ramp.start_rps, "ramp_up_end_rps": ramp.end_rps,
        }
    if process == "closed":
        return {"arrival": process}
    burstiness = None if process == "constant" else described.burstiness
    return {"arrival": process, "request_rate": described.rate_rps, "burstiness": burstiness}


def plan_lines(load: Load) -> Iterator[str]:
    """What will be sent, for a reader."""
    facts, requests = load.facts, load.planned.requests
    counts = Counter(one.traffic_class for one in requests)
    tokens = sum(len(one.prompt) for one in requests)
    shared = sum(one.hit_tokens for one in requests if one.hit_tokens is not None)
    yield f"load {load.workload.name}, seed {load.seed}: {len(requests):,} requests to {facts.url}{facts.path}"
    yield f"  model {load.model}; prompts: {load.prompts.told}, sent as {facts.prompts}"
    yield from (f"  {line}" for line in load.trace_lines)
    yield f"  by class: {', '.join(f'{count:,} {name}' for name, count in sorted(counts.items()))}"
    yield f"  arrivals: {_arrivals(load)}"
    yield (
        f"  {tokens:,} {facts.lengths} of prompts, of which a cache without an end would find {shared:,}; "
        f"answers of at most {sum(one.max_tokens for one in requests):,} tokens"
    )
    cut = [f"{count} {name.replace('_', ' ')}" for name, count in asdict(load.planned.cut).items() if count]
    if cut:
        yield f"  cut to fit the context or the duration: {', '.join(cut)}"
    for name, limits in load.limits.items():
        yield f"  good {name}: {', '.join(f'{key} {value:g}' for key, value in asdict(limits).items() if value)}"


def _arrivals(load: Load) -> str:
    if load.facts.arrival == "closed":
        return f"closed loop, at most {load.facts.max_concurrency} in flight; latency counts from when a place was free"
    cap = load.facts.max_concurrency
    over = f"over {load.planned.duration_s:.1f} s"
    if cap is None:
        return f"open loop {over}"
    return f"{over}, held back where {cap} are in flight; latency counts from when a place was free"
