"""The flags of `testbed load`: vLLM's spelling first, AIPerf's as an alias, and what else their users may write.

One field of `LoadFlags` is one flag; typer reads the class, so that no function has forty parameters.
"""

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

import typer

from testbed.errors import SpecError
from testbed.spec.suggest import did_you_mean

SERVER, TRAFFIC, PROMPTS, RESULT = "Server", "Traffic by flags, without a WORKLOAD", "Prompts and client", "Result"


@dataclass(frozen=True)
class LoadFlags:
    """What stood on the command line. `words` are the WORKLOAD, further words of --goodput, and unknown flags."""

    words: Annotated[list[str] | None, typer.Argument(
        metavar="WORKLOAD", help="A file of configs/workloads, or a path; without one flags describe the traffic.",
    )] = None
    url: Annotated[str, typer.Option(
        "--url", "--base-url", "-u", rich_help_panel=SERVER, help="Where the server is; a path before /v1 may follow.",
    )] = "http://127.0.0.1:8000"
    endpoint: Annotated[str, typer.Option(
        "--endpoint", "--custom-endpoint", rich_help_panel=SERVER, help="/v1/completions or /v1/chat/completions.",
    )] = "/v1/completions"
    model: Annotated[str | None, typer.Option(
        "--model", "--model-names", "-m", rich_help_panel=SERVER, help="Its name at the server; else its first one.",
    )] = None
    api_key_env: Annotated[str | None, typer.Option(
        "--api-key-env", metavar="NAME", rich_help_panel=SERVER, help="The environment variable that holds the key.",
    )] = None
    request_rate: Annotated[float | None, typer.Option(
        "--request-rate", rich_help_panel=TRAFFIC, help="Requests a second, open loop; inf needs --max-concurrency.",
    )] = None
    burstiness: Annotated[float | None, typer.Option(
        "--burstiness", "--arrival-smoothness", "--vllm-burstiness", rich_help_panel=TRAFFIC,
        help="Shape of the gamma gaps: 1 is Poisson, lower clusters, higher evens out, inf is constant.",
    )] = None
    max_concurrency: Annotated[int | None, typer.Option(
        "--max-concurrency", "--concurrency", rich_help_panel=TRAFFIC,
        help="At most so many in flight, which closes the loop; with a WORKLOAD too.",
    )] = None
    num_prompts: Annotated[int | None, typer.Option(
        "--num-prompts", "--request-count", "--num-requests", rich_help_panel=TRAFFIC, help="How many requests.",
        show_default="1000",
    )] = None
    random_input_len: Annotated[int | None, typer.Option(
        "--random-input-len", "--input-len", "--isl", "--synthetic-input-tokens-mean", "--prompt-input-tokens-mean",
        rich_help_panel=TRAFFIC, help="Tokens of a prompt.", show_default="1024",
    )] = None
    random_output_len: Annotated[int | None, typer.Option(
        "--random-output-len", "--output-len", "--osl", "--output-tokens-mean", rich_help_panel=TRAFFIC,
        help="Tokens of an answer.", show_default="128",
    )] = None
    random_range_ratio: Annotated[float | None, typer.Option(
        "--random-range-ratio", rich_help_panel=TRAFFIC, show_default="0",
        help="Lengths are even between len x (1 - r) and len x (1 + r).",
    )] = None
    random_prefix_len: Annotated[int | None, typer.Option(
        "--random-prefix-len", "--shared-system-prompt-length", rich_help_panel=TRAFFIC, show_default="0",
        help="Tokens before each prompt, the same in all.",
    )] = None
    ignore_eos: Annotated[bool | None, typer.Option(
        "--ignore-eos/--no-ignore-eos", rich_help_panel=TRAFFIC, show_default="ignore-eos",
        help="Whether answers are forced to their length.",
    )] = None
    ramp_up_strategy: Annotated[str | None, typer.Option(
        "--ramp-up-strategy", rich_help_panel=TRAFFIC, help="linear or exponential, instead of --request-rate.",
    )] = None
    ramp_up_start_rps: Annotated[float | None, typer.Option("--ramp-up-start-rps", rich_help_panel=TRAFFIC)] = None
    ramp_up_end_rps: Annotated[float | None, typer.Option("--ramp-up-end-rps", rich_help_panel=TRAFFIC)] = None
    request_timeout_s: Annotated[float | None, typer.Option(
        "--request-timeout-seconds", rich_help_panel=TRAFFIC, show_default="600", help="From when a request is due.",
    )] = None
    seed: Annotated[int, typer.Option(
        "--seed", "--random-seed", rich_help_panel=PROMPTS, help="Of arrivals, lengths and prompts.",
    )] = 0
    settings: Annotated[list[str] | None, typer.Option(
        "--set", rich_help_panel=PROMPTS, help="KEY=VALUE in the WORKLOAD, such as duration=60s.",
    )] = None
    tokenizer: Annotated[Path | None, typer.Option(
        "--tokenizer", rich_help_panel=PROMPTS, help="A folder with tokenizer.json: prompts are then real text.",
    )] = None
    vocab_size: Annotated[int | None, typer.Option(
        "--vocab-size", rich_help_panel=PROMPTS, show_default="1000",
        help="Without a tokenizer prompts are seeded token ids below this.",
    )] = None
    send_text: Annotated[bool, typer.Option(
        "--send-text", rich_help_panel=PROMPTS, help="Send text to /v1/completions too, for servers that take no ids.",
    )] = False
    extra_body: Annotated[str | None, typer.Option(
        "--extra-body", metavar="JSON", rich_help_panel=PROMPTS, help="Fields for each body; null leaves one out.",
    )] = None
    num_warmups: Annotated[int, typer.Option(
        "--num-warmups", "--warmup-request-count", "--num-warmup-requests", min=0, rich_help_panel=PROMPTS,
        help="Requests before the schedule, not measured, like none of it.",
    )] = 0
    workers: Annotated[int, typer.Option("--workers", min=1, rich_help_panel=PROMPTS, help="Client processes.")] = 1
    on_interrupt: Annotated[str, typer.Option(
        "--on-interrupt", rich_help_panel=PROMPTS, help="What Ctrl-C does to what is in flight: drop or drain.",
    )] = "drop"
    goodput: Annotated[list[str] | None, typer.Option(
        "--goodput", metavar="[CLASS:]METRIC:MS ...", rich_help_panel=RESULT,
        help="Limits of a good answer: ttft:300 tpot:50 e2el:5000; long_doc:ttft:2000 for one class.",
    )] = None
    percentile_metrics: Annotated[str, typer.Option(
        "--percentile-metrics", rich_help_panel=RESULT, help="Those of the JSON; also client_queue_time.",
    )] = "ttft,tpot,itl,e2el"
    metric_percentiles: Annotated[str, typer.Option(
        "--metric-percentiles", rich_help_panel=RESULT, help="Such as 50,90,99; of the JSON.",
    )] = "99"
    save_result: Annotated[bool, typer.Option(
        "--save-result", rich_help_panel=RESULT, help="Write the JSON of vllm bench serve also where that would.",
    )] = False
    save_detailed: Annotated[bool, typer.Option(
        "--save-detailed", rich_help_panel=RESULT, help="With an entry for each request.",
    )] = False
    result_dir: Annotated[Path | None, typer.Option("--result-dir", rich_help_panel=RESULT)] = None
    result_filename: Annotated[str | None, typer.Option("--result-filename", rich_help_panel=RESULT)] = None
    label: Annotated[str | None, typer.Option("--label", rich_help_panel=RESULT, help="Kept in the JSON.")] = None
    results: Annotated[Path, typer.Option(
        "--results", "--artifact-dir", "--output-artifact-dir", rich_help_panel=RESULT, help="Holds the runs.",
    )] = Path("results")
    as_json: Annotated[bool, typer.Option(
        "--json", rich_help_panel=RESULT, help="Print the JSON, not the table.",
    )] = False


NUMBERS: Mapping[str, str] = MappingProxyType({
    "num_prompts": "requests", "request_rate": "rate_rps", "burstiness": "burstiness",
    "random_input_len": "input_len", "random_output_len": "output_len", "random_range_ratio": "range_ratio",
    "random_prefix_len": "prefix_len", "ignore_eos": "forced", "request_timeout_s": "timeout_s",
})
"""Fields that describe traffic, and what the description calls them. A WORKLOAD says all of it itself."""
RAMP = ("ramp_up_strategy", "ramp_up_start_rps", "ramp_up_end_rps")

_FIELDS = "write fields of the body as JSON: --extra-body '{\"NAME\": VALUE}'"
_PATH = "the path says what is spoken: --endpoint /v1/completions or /v1/chat/completions"
_WHERE = "write --url http://HOST:PORT"
_DATA = "flags describe random prompts; any other traffic, also a trace, is a file: testbed load WORKLOAD"
_GREEDY = "answers are greedy, so that runs can be compared; --extra-body '{\"temperature\": 0.7}' says otherwise"
_TIMES = "a workload with a trace keeps the times of the trace"
_VIEW = "the view is drawn on a terminal; elsewhere a plain line comes every few seconds"
_FACTS = "manifest.json of the run holds versions, host, seed and all that was asked"
_MODEL = "--model is the name by which the server knows it"
_TOKENIZER = "--tokenizer takes a folder with tokenizer.json; without one prompts are seeded token ids"
_MINE = "the connection uses the certificates of this system, and SSL_CERT_FILE where it is set"
_SECRET = "a key on a command line can be read by others; put it into a variable: --api-key-env NAME"
_REPORT = "`testbed report results/RUN` draws the run from its journal"
_STREAM = "answers are always streamed, for a first token can't be seen otherwise"
_CLASS = "give it a traffic class of its own in a WORKLOAD; each class is told apart"

ELSEWHERE: Mapping[str, str] = MappingProxyType({
    **dict.fromkeys(("--backend", "--endpoint-type", "--task-type"), _PATH),
    **dict.fromkeys(("--host", "--port"), _WHERE),
    **dict.fromkeys((
        "--input-file", "--public-dataset", "--no-oversample", "--disable-shuffle", "--skip-chat-template",
        "--no-stream", "--no-reranker", "--random-batch-size", "--chat-template-kwargs", "--enable-multimodal-chat",
        "--plot-dataset-stats",
    ), _DATA),
    **dict.fromkeys((
        "--temperature", "--top-p", "--top-k", "--min-p", "--frequency-penalty", "--presence-penalty",
        "--repetition-penalty", "--use-beam-search", "--logprobs",
    ), _GREEDY),
    "--extra-inputs": _FIELDS,
    **dict.fromkeys(("--self-timed", "--no-self-timed", "--fixed-schedule"), _TIMES),
    **dict.fromkeys(("--disable-tqdm", "--ui", "--ui-type"), _VIEW),
    **dict.fromkeys(("--metadata", "--request-id-prefix"), _FACTS),
    **dict.fromkeys(("--served-model-name", "--lora-modules", "--lora-assignment"), _MODEL),
    **dict.fromkeys(("--tokenizer-mode", "--trust-remote-code", "--skip-tokenizer-init"), _TOKENIZER),
    **dict.fromkeys(("--plot-timeline", "--timeline-itl-thresholds"), _REPORT),
    "--insecure": _MINE, "--api-key": _SECRET, "--header": _SECRET, "--streaming": _STREAM,
    "--probe-request-rate": _CLASS,
    "--arrival-pattern": "--burstiness says it: inf is constant, 1 Poisson, anything else gamma",
    "--request-rate-mode": "--burstiness says it: inf is constant, 1 Poisson, anything else gamma",
    "--append-result": "each load has a folder and a file of its own",
    "--ready-check-timeout-sec": "one plain question is asked before the schedule starts, with a limit of its own",
    "--profile": "start and end the server's profiler by hand; the journal has the times of the load",
    "--benchmark-duration": "give --num-prompts, which is rate x duration, or a WORKLOAD with its duration",
})
"""Flags of other load generators that are no flags here, and what to do instead."""

DATA_PREFIXES = (
    "--dataset-", "--custom-output-", "--custom-dataset-", "--custom-ensure-", "--hf-", "--sharegpt-",
    "--spec-bench-", "--speed-bench-", "--timed-trace-", "--prefix-repetition-", "--random-mm-", "--asr-",
    "--blazedit-", "--bfcl-",
)
"""Their flags for data sets, of which there are many."""


def verb_of(act: Callable[[LoadFlags], int]) -> Callable[..., int]:
    """`act` as a function that typer can make a command of: a parameter for each field of LoadFlags."""
    def load(**given: Any) -> int:
        return act(LoadFlags(**given))

    load.__dict__["__signature__"] = inspect.signature(LoadFlags)
    load.__annotations__ = dict(LoadFlags.__annotations__)
    load.__doc__ = act.__doc__
    return load


def described_numbers(flags: LoadFlags, workload: str | None) -> dict[str, Any]:
    """The numbers that describe the traffic, by the names of their description; only those that were given.

    Raises: SpecError if a workload is named as well, or a ramp is not whole.
    """
    ramp = tuple(getattr(flags, field) for field in RAMP)
    given = {name: getattr(flags, field) for field, name in NUMBERS.items() if getattr(flags, field) is not None}
    if workload is not None:
        both = [flag_of(field) for field in (*NUMBERS, *RAMP) if getattr(flags, field) is not None]
        if both:
            raise SpecError(
                f"{', '.join(both)} and the workload {workload} contradict each other", where="testbed load",
                hint="change the workload, such as --set requests=100, or leave it out and describe all by flags",
            )
        return {}
    if any(one is not None for one in ramp):
        if None in ramp:
            raise SpecError(f"needs all of {', '.join(map(flag_of, RAMP))}", where=flag_of(RAMP[0]))
        given["ramp_up"] = ramp
    return given if flags.max_concurrency is None else {**given, "max_concurrency": flags.max_concurrency}


def percentiles(flags: LoadFlags) -> tuple[float, ...]:
    """Those after --metric-percentiles.

    Raises: SpecError
    """
    where, text = flag_of("metric_percentiles"), flags.metric_percentiles
    try:
        found = tuple(float(word) for word in text.split(","))
    except ValueError as problem:
        raise SpecError(f"{text!r} are no numbers", where=where, hint=f"such as {where} 50,90,99") from problem
    if not all(0 <= one <= 100 for one in found):
        raise SpecError(f"{text!r}: a percentile is from 0 to 100", where=where)
    return found


def extra_body(flags: LoadFlags) -> dict[str, Any]:
    """The fields after --extra-body.

    Raises: SpecError if they are no JSON object.
    """
    if flags.extra_body is None:
        return {}
    where, hint = flag_of("extra_body"), "such as --extra-body '{\"temperature\": 0.7}'"
    try:
        content = json.loads(flags.extra_body)
    except ValueError as problem:
        raise SpecError(f"{flags.extra_body!r} is no JSON: {problem}", where=where, hint=hint) from problem
    if not isinstance(content, dict):
        raise SpecError(f"{flags.extra_body!r} is no JSON object", where=where, hint=hint)
    return content


def split_words(words: Sequence[str], with_limits: bool) -> tuple[str | None, list[str]]:
    """The WORKLOAD among the words, if there is one, and further limits that stood after --goodput.

    Raises: SpecError for a flag that is not known, and for a second workload.
    """
    for word in words:
        if word.startswith("-"):
            raise _unknown(word.partition("=")[0])
    limits = [word for word in words if with_limits and ":" in word]
    names = [word for word in words if word not in limits]
    if len(names) > 1:
        raise SpecError(f"one workload is driven at a time, not {' and '.join(names)}", where="testbed load")
    return (names[0] if names else None), limits


def _unknown(flag: str) -> SpecError:
    instead = _DATA if flag.startswith(DATA_PREFIXES) else ELSEWHERE.get(flag)
    if instead is not None:
        return SpecError(f"{flag} is no flag here", where="testbed load", hint=instead)
    near = did_you_mean(flag, [name for name in flag_names() if name.startswith("--")])
    return SpecError(
        f"there is no flag {flag}", where="testbed load", hint=near if near else "testbed load --help lists all",
    )


def flag_names() -> tuple[str, ...]:
    """Every flag and alias that the verb takes."""
    parameters = inspect.signature(LoadFlags).parameters.values()
    infos = [parameter.annotation.__metadata__[0] for parameter in parameters]
    options = [info for info in infos if not isinstance(info, type(typer.Argument()))]
    return tuple(name for info in options for text in (info.default, *info.param_decls) for name in text.split("/"))


def flag_of(field: str) -> str:
    """How a field is written on the command line, in vLLM's spelling."""
    return str(inspect.signature(LoadFlags).parameters[field].annotation.__metadata__[0].default).partition("/")[0]
