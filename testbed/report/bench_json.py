"""A load as the JSON that `vllm bench serve` writes: its keys with its formulas, and ours under `testbed`.

Its figures count from the moment of sending, and an ITL is the gap between two chunks, however many tokens they hold.
Where it would write 0 for what was not measured, null is written here. Facts of vLLM 0.32, `vllm/benchmarks/serve.py`.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from testbed.checks.verdict import Verdict
from testbed.errors import JournalError
from testbed.journal.events import ArmBegan
from testbed.journal.manifest import LoadFacts, Manifest
from testbed.metrics.analysis import Analysis
from testbed.metrics.latency import tpot_s
from testbed.metrics.outcomes import count_outcomes
from testbed.metrics.requests import NS, RequestRow
from testbed.metrics.table import UNCHECKED, Row, declared_metrics
from testbed.metrics.views import RequestView
from testbed.missing import Missing

MS = 1000
OURS = "testbed"
CLIENT_EVENTS = frozenset({"request_planned", "request_sent", "request_ended", "drive_ended"})
"""A metric that needs no more than these can have a value in a load."""


@dataclass(frozen=True)
class _Answer:
    """A complete answer as vLLM's client would have seen it; `tokens` is None where the server did not tell.

    `queue_s` is how long it waited for the client, from the moment at which the plan wanted it out.
    """

    queue_s: float
    sent_s: float
    prompt_tokens: int
    tokens: int | None
    ttft_s: float
    e2el_s: float
    gaps_s: tuple[float, ...]
    tpot_s: float | None


METRICS: Mapping[str, Callable[[_Answer], tuple[float, ...]]] = {
    "ttft": lambda one: (one.ttft_s,),
    "tpot": lambda one: () if one.tpot_s is None else (one.tpot_s,),
    "itl": lambda one: one.gaps_s,
    "e2el": lambda one: (one.e2el_s,),
    "client_queue_time": lambda one: (one.queue_s,),
    "e2el_including_client_queue": lambda one: (one.e2el_s + one.queue_s,),
}
"""vLLM's names of what --percentile-metrics may select."""


def bench_json(
    analysis: Analysis, verdicts: Sequence[Verdict], rows: Sequence[Row], *, detailed: bool = False
) -> dict[str, Any]:
    """The content of the file; `rows` are those of the run's table.

    `detailed` adds the lists with an entry for each request, as --save-detailed does.
    Raises: JournalError if the run is no load.
    """
    manifest = analysis.run.manifest
    facts = manifest.load
    if facts is None:
        raise JournalError("is no load, so it has no file of this kind", where=manifest.run)
    views = sorted(analysis.views, key=lambda view: (view.row.repetition, view.row.planned.index))
    zeros = {event.repetition: event.zero_at_ns for event in analysis.run.journal.select(ArmBegan)}
    answers = [_answer(view.row, zeros) for view in views]
    complete = [answer for answer in answers if answer is not None]
    content = {**_head(manifest, facts, len(views)), **_totals(views, answers, _window_s(analysis))}
    content |= {key: value for name in facts.percentile_metrics for key, value in _figures(name, complete, facts)}
    content |= _lists(views, answers, detailed)
    return content | {OURS: _ours(analysis, verdicts, rows)}


def file_name(content: Mapping[str, Any]) -> str:
    """What vllm bench would call the file of this content."""
    model = str(content["model_id"]).split("/")[-1]
    label = content["label"] if content["label"] else content["backend"]
    cap = "" if content["max_concurrency"] is None else f"-concurrency{content['max_concurrency']}"
    pace = f"{content['request_rate']}qps" if content["request_rate"] is not None else "workload"
    if "ramp_up_strategy" in content:
        ends = f"{content['ramp_up_start_rps']:g}qps-{content['ramp_up_end_rps']:g}qps"
        pace = f"ramp-up-{content['ramp_up_strategy']}-{ends}"
    return f"{label}-{pace}{cap}-{model}-{content['date']}.json"


def _head(manifest: Manifest, facts: LoadFacts, planned: int) -> dict[str, Any]:
    """What was asked for, under vLLM's names."""
    backend = "openai-chat" if facts.prompts == "chat" else "openai"
    head: dict[str, Any] = {
        "date": manifest.created.replace("-", "").replace(":", "").replace("T", "-").removesuffix("Z"),
        "endpoint_type": backend, "backend": backend, "label": facts.label, "model_id": manifest.model,
        "tokenizer_id": facts.tokenizer, "num_prompts": planned, "request_rate": _told_rate(facts),
        "burstiness": "inf" if facts.arrival == "constant" else facts.burstiness,
        "max_concurrency": facts.max_concurrency,
    }
    if facts.ramp_up_strategy is not None:
        head |= {
            "ramp_up_strategy": facts.ramp_up_strategy, "ramp_up_start_rps": facts.ramp_up_start_rps,
            "ramp_up_end_rps": facts.ramp_up_end_rps,
        }
    return head


def _told_rate(facts: LoadFacts) -> float | str | None:
    """vLLM's rate is endless where a cap or a ramp sets the pace; a workload has none that is one number."""
    return "inf" if facts.arrival in ("closed", "ramp") else facts.request_rate


def _answer(row: RequestRow, zeros: Mapping[int, int]) -> _Answer | None:
    """None for whatever is no complete answer; vLLM counts a stream that broke off as one."""
    ended = row.ended
    if ended is None or not row.ok or ended.sent_at_ns is None:
        return None
    if ended.first_token_at_ns is None or ended.last_token_at_ns is None:
        return None
    each = tpot_s(row)
    reported = ended.usage_prompt_tokens
    return _Answer(
        queue_s=(ended.sent_at_ns - _due_at_ns(row, ended.scheduled_at_ns, zeros)) / NS,
        sent_s=ended.sent_at_ns / NS, prompt_tokens=row.planned.prompt_tokens if reported is None else reported,
        tokens=row.output_tokens, ttft_s=(ended.first_token_at_ns - ended.sent_at_ns) / NS,
        e2el_s=(ended.last_token_at_ns - ended.sent_at_ns) / NS,
        gaps_s=tuple((after - before) / NS for before, after in pairwise(ended.chunk_at_ns)),
        tpot_s=None if isinstance(each, Missing) else each,
    )


def _due_at_ns(row: RequestRow, scheduled_at_ns: int, zeros: Mapping[int, int]) -> int:
    """By the plan alone, for under a cap it was scheduled when a place was free. A turn waits for the one before."""
    zero_at_ns = zeros.get(row.repetition)
    if zero_at_ns is None or row.planned.after is not None:
        return scheduled_at_ns
    return zero_at_ns + round(row.planned.scheduled_at_s * NS)


def _window_s(analysis: Analysis) -> float | None:
    """From the zero of the schedule to the last end; vLLM's clock starts there too."""
    zeros = [event.zero_at_ns for event in analysis.run.journal.select(ArmBegan)]
    ends = [view.row.ended.ended_at_ns for view in analysis.views if view.row.ended is not None]
    return (max(ends) - min(zeros)) / NS if zeros and ends and max(ends) > min(zeros) else None


def _totals(
    views: Sequence[RequestView], answers: Sequence[_Answer | None], window_s: float | None
) -> dict[str, Any]:
    complete = [answer for answer in answers if answer is not None]
    tokens_in = sum(answer.prompt_tokens for answer in complete)
    counts = [answer.tokens for answer in complete]
    known = [count for count in counts if count is not None]
    tokens_out = sum(known) if len(known) == len(counts) else None
    limited = any(view.limits is not None for view in views)
    good = sum(_is_good(view, answer) for view, answer in zip(views, answers, strict=True)) if limited else None
    return {
        "duration": window_s, "completed": len(complete), "failed": len(answers) - len(complete),
        "total_input_tokens": tokens_in, "total_output_tokens": tokens_out,
        "request_throughput": _rate(len(complete), window_s), "request_goodput": _rate(good, window_s),
        "output_throughput": _rate(tokens_out, window_s),
        "total_token_throughput": _rate(None if tokens_out is None else tokens_in + tokens_out, window_s),
        "max_output_tokens_per_s": _busiest_second(complete), "max_concurrent_requests": _fullest_second(complete),
        "rtfx": None,
    }


def _rate(count: int | None, window_s: float | None) -> float | None:
    return None if count is None or window_s is None else count / window_s


def _is_good(view: RequestView, answer: _Answer | None) -> bool:
    """By vLLM's rule: from sending, each limit inclusive, no TPOT counts as one that is kept. Ours is `goodput_rps`."""
    limits = view.limits
    if answer is None or limits is None:
        return False
    measured = ((answer.ttft_s, limits.ttft_s), (answer.tpot_s, limits.tpot_s), (answer.e2el_s, limits.e2e_s))
    return all(value is None or limit is None or value <= limit for value, limit in measured)


def _seconds(answers: Sequence[_Answer]) -> float:
    """The first sending, from which vLLM counts its seconds."""
    return min(answer.sent_s for answer in answers)


def _busiest_second(answers: Sequence[_Answer]) -> float | None:
    """The most chunks that came in one second; vLLM calls them tokens."""
    if not answers:
        return None
    first_s = _seconds(answers)
    moments = [
        answer.sent_s + answer.ttft_s + after_s - first_s for answer in answers for after_s in _sums(answer.gaps_s)
    ]
    return float(np.bincount(np.asarray(moments).astype(int)).max())


def _sums(gaps_s: Sequence[float]) -> list[float]:
    return [0.0, *np.cumsum(gaps_s).tolist()]


def _fullest_second(answers: Sequence[_Answer]) -> int | None:
    """The most requests that were there in one second, be it for a part of it."""
    if not answers:
        return None
    first_s = _seconds(answers)
    begins = [int(answer.sent_s - first_s) for answer in answers]
    ends = [int(answer.sent_s + answer.e2el_s - first_s) for answer in answers]
    changes = np.zeros(max(ends) + 2, dtype=int)
    np.add.at(changes, begins, 1)
    np.add.at(changes, [end + 1 for end in ends], -1)
    return int(np.cumsum(changes).max())


def _figures(name: str, answers: Sequence[_Answer], facts: LoadFacts) -> list[tuple[str, float | None]]:
    """mean, median, std and the percentiles of one of vLLM's metrics, in ms."""
    if name not in METRICS:
        raise JournalError(f"{name!r} is no metric; known are {', '.join(METRICS)}", where="percentile_metrics")
    values = np.asarray([value for answer in answers for value in METRICS[name](answer)], dtype=np.float64) * MS
    found = len(values) > 0
    figures: list[tuple[str, float | None]] = [
        (f"mean_{name}_ms", float(values.mean()) if found else None),
        (f"median_{name}_ms", float(np.median(values)) if found else None),
        (f"std_{name}_ms", float(values.std()) if found else None),
    ]
    return figures + [
        (f"p{percentile:g}_{name}_ms", float(np.percentile(values, percentile)) if found else None)
        for percentile in facts.percentiles
    ]


def _lists(views: Sequence[RequestView], answers: Sequence[_Answer | None], detailed: bool) -> dict[str, Any]:
    """An entry for each request, null where it has no complete answer. No text is in the journal."""
    lists: dict[str, Any] = {
        "latencies": [None if one is None else one.e2el_s for one in answers],
        "queue_times": [None if one is None else one.queue_s for one in answers],
    }
    if detailed:
        lists |= {
            "input_lens": [view.row.planned.prompt_tokens if one is None else one.prompt_tokens
                           for view, one in zip(views, answers, strict=True)],
            "output_lens": [None if one is None else one.tokens for one in answers],
            "ttfts": [None if one is None else one.ttft_s for one in answers],
            "itls": [None if one is None else list(one.gaps_s) for one in answers],
            "start_times": [_sent_s(view.row) for view in views],
            "generated_texts": [None] * len(views),
            "errors": [_error(view.row) for view in views],
        }
    return lists


def _sent_s(row: RequestRow) -> float | None:
    return None if row.ended is None or row.ended.sent_at_ns is None else row.ended.sent_at_ns / NS


def _error(row: RequestRow) -> str:
    if row.ok:
        return ""
    if row.ended is None:
        return "interrupted"
    return f"{row.ended.reason}: {row.ended.error}" if row.ended.error else row.ended.reason


def _ours(analysis: Analysis, verdicts: Sequence[Verdict], rows: Sequence[Row]) -> dict[str, Any]:
    """What vLLM's file has no place for; its numbers count from the schedule, each with n, interval or reason."""
    manifest = analysis.run.manifest
    ends = [view.row.ended for view in analysis.views if view.row.ended is not None]
    reasons = Counter(ended.reason for ended in ends if ended.reason)
    wanted = {metric.name for metric in declared_metrics() if CLIENT_EVENTS.issuperset(metric.needs)}
    return {
        "run": manifest.run, "status": manifest.status, "stub": manifest.stub, "seed": manifest.seed,
        "outputs": "checked" if analysis.run.golden else UNCHECKED,
        "ttft_above": "ttft_sent_s: from sending, as vLLM counts; ttft_s here counts from the schedule",
        "outcomes": dict(count_outcomes(view.row for view in analysis.views)), "reasons": dict(reasons),
        "metrics": [row.as_json() for row in rows if row.metric in wanted],
        "checks": [{"check": one.check, "status": one.status, "text": one.text} for one in verdicts],
    }
