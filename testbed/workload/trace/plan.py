"""From a trace to planned requests: lengths, times and shared prefixes as recorded, words from the corpus.

All that becomes of the trace on the way is told in lines: what was moved, cut or left out, and by which setting.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from testbed.errors import SpecError
from testbed.spec.trace import Trace
from testbed.spec.tree import Problem, refuse
from testbed.workload.hits import with_hits
from testbed.workload.mixed import Cut, WorkloadPlan
from testbed.workload.request import PlannedRequest
from testbed.workload.trace.blocks import PiecePath, PieceTree, Texts, scaled_ends, texts_for
from testbed.workload.trace.records import TraceRecords, TraceRow, shortened
from testbed.workload.trace.sharegpt import Turns, estimated_tokens, turns_of
from testbed.workload.trace.timing import found_quantum_ns, offsets_s, within

LINES_NAMED = 10


@dataclass(frozen=True)
class TraceSetting:
    """What a plan needs beside the trace: the seed, the tokenised corpus, and what the model can hold.

    `name` is the workload's. `count_tokens` is the model's own tokenizer; without one, lengths of conversations are
    estimated. `decode_s_per_token` is the pace at which planned answers are read between turns.
    """

    name: str
    seed: int
    tokens: Sequence[int]
    max_model_len: int
    decode_s_per_token: float = 0.0
    count_tokens: Callable[[str], int] | None = None


@dataclass(frozen=True)
class TracePlan:
    """The requests of a trace, without the `not_sent` that the context can't hold; `lines` tell how it came about."""

    workload: WorkloadPlan
    not_sent: int
    lines: tuple[str, ...]

    @property
    def planned(self) -> int:
        """All requests of the window: those to send and those not sent."""
        return len(self.workload.requests) + self.not_sent


@dataclass(frozen=True)
class _Sized:
    """One row as it is to be sent: where its pieces end, after scale and cut."""

    row: TraceRow
    at_s: float
    path: PiecePath
    ends: tuple[int, ...]
    max_tokens: int
    wanted_input: int
    wanted_output: int

    @property
    def too_long(self) -> bool:
        return self.ends[-1] < self.wanted_input or self.max_tokens < self.wanted_output


def plan_trace(spec: Trace, records: TraceRecords, setting: TraceSetting) -> TracePlan:
    """Plan one arm. The text of a piece depends on seed and file alone, not on window, limit or scale of time.

    Raises: SpecError if a request does not fit the context and the spec does not say what to do, with all of them;
    if the window is empty; or if the corpus is too short.
    """
    turns = _turns(spec, records, setting)
    rows = records.rows if turns is None else turns.rows
    offsets = offsets_s(rows, spec, where=records.where, name=setting.name, seed=setting.seed)
    window = within(offsets, spec)
    if not rows[window]:
        raise SpecError(f"no request lies in the window; the trace has {len(rows)}", where=records.where)
    tree = PieceTree(rows)
    sized = [
        _sized(row, at_s, path, spec, setting.max_model_len)
        for row, at_s, path in zip(rows[window], offsets[window], tree.paths[window], strict=True)
    ]
    kept = _fitting(sized, spec, records, setting.max_model_len)
    requests = _requests(kept, spec, setting, tree)
    dropped = [one for one in sized if one.too_long] if spec.too_long == "skip" else []
    cut = Cut(
        inputs=sum(one.ends[-1] < one.wanted_input for one in kept),
        outputs=sum(one.max_tokens < one.wanted_output for one in kept),
        too_long=len(dropped),
    )
    workload = WorkloadPlan(
        documents=(), requests=requests, fill=(), cut=cut, duration_s=_duration_s(requests, spec, window, len(rows))
    )
    lines = (*_origin(spec, records, rows), *_left_out(turns), *_played(spec, workload, dropped, setting))
    return TracePlan(workload, len(dropped), lines)


def _turns(spec: Trace, records: TraceRecords, setting: TraceSetting) -> Turns | None:
    """The requests of conversations; None for a trace that has its own."""
    if spec.format != "sharegpt":
        return None
    turns = turns_of(
        records.conversations, spec, name=setting.name, seed=setting.seed,
        count=estimated_tokens if setting.count_tokens is None else setting.count_tokens,
        decode_s_per_token=setting.decode_s_per_token,
    )
    if not turns.rows:
        raise SpecError("no question has an answer", where=records.where, hint="give default_output")
    return turns


def _sized(row: TraceRow, at_s: float, path: PiecePath, spec: Trace, max_model_len: int) -> _Sized:
    ends = scaled_ends(row.ends if row.ends else (row.input_tokens,), Fraction(str(spec.length_scale)))
    output_scale = spec.length_scale if spec.output_scale is None else spec.output_scale
    wanted = scaled_ends((row.output_tokens,), Fraction(str(output_scale)))[0]
    max_tokens = min(wanted, max_model_len - 1)
    room = min(ends[-1], max_model_len - max_tokens)
    cut = (*(end for end in ends if end < room), room)
    return _Sized(row, at_s, path[: len(cut)], cut, max_tokens, ends[-1], wanted)


def _fitting(sized: list[_Sized], spec: Trace, records: TraceRecords, max_model_len: int) -> list[_Sized]:
    """The rows to send. Raises: SpecError if some are too long and may be neither skipped nor cut."""
    too_long = [one for one in sized if one.too_long]
    if spec.too_long == "cut" or not too_long:
        return sized
    if spec.too_long == "refuse":
        problems = [
            Problem(
                f"{records.where}:{one.row.line}",
                f"{one.wanted_input} + {one.wanted_output} tokens are more than the context of {max_model_len}",
                "too_long: skip or cut, or length_scale" if one is too_long[0] else None,
            )
            for one in too_long
        ]
        raise refuse(shortened(problems, records.where))
    if len(too_long) == len(sized):
        raise SpecError(f"no request fits the context of {max_model_len} tokens", where=records.where)
    return [one for one in sized if not one.too_long]


def _requests(
    kept: list[_Sized], spec: Trace, setting: TraceSetting, tree: PieceTree
) -> tuple[PlannedRequest, ...]:
    texts = texts_for(tree, setting.tokens, name=setting.name, seed=setting.seed)
    return with_hits([
        PlannedRequest(
            index=index, traffic_class=_class_of(one, spec, setting.name),
            scheduled_at_s=(one.at_s - spec.window.begin) * spec.time_scale,
            prompt=_prompt(one, tree, texts), max_tokens=one.max_tokens, stop=_stop_of(one, spec),
            timeout_s=spec.timeout, session=one.row.session, turn=one.row.turn,
        )
        for index, one in enumerate(kept)
    ])


def _prompt(one: _Sized, tree: PieceTree, texts: Texts) -> tuple[int, ...]:
    prompt: list[int] = []
    for piece, end in zip(one.path, one.ends, strict=True):
        prompt += texts.cut(texts.start(*tree.place(piece)), end - len(prompt))
    return tuple(prompt)


def _class_of(one: _Sized, spec: Trace, name: str) -> str:
    if spec.long_above is not None:
        return "long" if one.ends[-1] > spec.long_above else "short"
    return name if one.row.traffic_class is None else one.row.traffic_class


def _stop_of(one: _Sized, spec: Trace) -> Literal["forced", "natural"]:
    planned = spec.stop if spec.stop is not None else one.row.stop
    return "forced" if planned is None else planned


def _duration_s(requests: Sequence[PlannedRequest], spec: Trace, window: slice, rows: int) -> float:
    """To the end of the window; where it is open, or the limit comes first, one mean gap beyond the last request."""
    limited = spec.limit is not None and window.stop - window.start == spec.limit and spec.format != "sharegpt"
    if spec.window.end is not None and not limited:
        return (spec.window.end - spec.window.begin) * spec.time_scale
    last_s, span_s = requests[-1].scheduled_at_s, requests[-1].scheduled_at_s - requests[0].scheduled_at_s
    return last_s + (span_s / (len(requests) - 1) if span_s > 0 else 1.0)


def _origin(spec: Trace, records: TraceRecords, rows: Sequence[TraceRow]) -> Iterator[str]:
    """The trace as it was read."""
    yield from (f"warning: {text}" for text in records.warnings)
    span_s = (rows[-1].at_ns - rows[0].at_ns) / 1e9
    unit = f", time stamps in {spec.time_unit}" if spec.format == "mooncake" else ""
    rate = f", {len(rows) / span_s:.4g} a second" if span_s > 0 else ""
    yield f"trace {spec.file} ({spec.format}), sha256 {records.sha256}"
    yield f"  {len(rows)} requests over {span_s:g} s{rate}{unit}"
    yield from (f"  {note}" for note in records.notes)
    if spec.timing == "dequantised":
        quantum_s = spec.quantum if spec.quantum is not None else found_quantum_ns(rows, where=records.where) / 1e9
        yield f"  time stamps dequantised: spread evenly, by seed, over the {quantum_s:g} s that follow each"


def _left_out(turns: Turns | None) -> Iterator[str]:
    """What of the conversations is not played."""
    if turns is None:
        return
    if turns.later_turns:
        yield f"  {turns.later_turns} later turn{'s' if turns.later_turns > 1 else ''} left out (turns: first)"
    if turns.without_answer:
        yield f"  {turns.without_answer} questions without an answer left out (no default_output)"
    if turns.never_begun:
        yield f"  {turns.never_begun} conversations never begin: their arrivals have come to an end"


def _played(spec: Trace, plan: WorkloadPlan, dropped: Sequence[_Sized], setting: TraceSetting) -> Iterator[str]:
    """What is played of it, and how."""
    end = "the end" if spec.window.end is None else f"{spec.window.end:g} s"
    limit = "" if spec.limit is None else f", limit {spec.limit}"
    output_scale = spec.length_scale if spec.output_scale is None else spec.output_scale
    yield (
        f"  played: {spec.window.begin:g} s to {end} of the trace{limit}; times x {spec.time_scale:g},"
        f" prompts x {spec.length_scale:g}, answers x {output_scale:g}"
    )
    sent, planned = len(plan.requests), len(plan.requests) + len(dropped)
    lines = ", ".join(str(one.row.line) for one in dropped[:LINES_NAMED])
    more = f" and {len(dropped) - LINES_NAMED} more" if len(dropped) > LINES_NAMED else ""
    where = f" (longer than the context of {setting.max_model_len} tokens: lines {lines}{more})" if dropped else ""
    yield f"  {planned} planned = {sent} to send + {len(dropped)} not sent{where}"
    if plan.cut.inputs or plan.cut.outputs:
        yield f"  cut to the context: {plan.cut.inputs} prompts, {plan.cut.outputs} answers"
    tokens = sum(len(one.prompt) for one in plan.requests)
    hits = sum(one.hit_tokens for one in plan.requests if one.hit_tokens is not None)
    yield f"  an endless cache would find {hits} of {tokens} prompt tokens, {hits / tokens:.1%}"
