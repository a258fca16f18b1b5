"""Fit a workload to what a processor does: lengths of documents, rates and duration, by a stated model.

The same YAML runs on a laptop and on a GPU. The model of the load is plain on purpose: every prompt is prefilled in
full (no cache of any kind), and a decode step serves about two requests, so each output token costs half a step.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from testbed.errors import BoundError, SpecError
from testbed.spec.workload import Documents, TrafficClass, Workload
from testbed.workload.lengths import long_tokens, mean_tokens, median_tokens

DECODE_SHARE = 0.5
"""Share of a decode step that one of the requests in it is charged, since decodes batch."""


@dataclass(frozen=True)
class Speed:
    """What was measured on this processor: `points` of (prompt tokens, seconds of prefill), and a decode step.

    Raises: BoundError if the points don't rise in both.
    """

    points: tuple[tuple[int, float], ...]
    decode_s_per_token: float

    def __post_init__(self) -> None:
        steps = ((0, 0.0), *self.points)
        rising = all(before[0] < after[0] and before[1] < after[1] for before, after in pairwise(steps))
        if not self.points or not rising:
            raise BoundError(f"prefill points must rise in tokens and in seconds: {list(self.points)}")

    def prefill_s(self, tokens: float) -> float:
        """Seconds to prefill a prompt of `tokens`: straight lines through the points.

        The last line is drawn on. Below the first point it is the larger of the first line and the line to the origin,
        so that a fixed cost stays and no prompt is free.
        """
        to_origin = self.points[0][1] / self.points[0][0] * tokens
        if len(self.points) == 1:
            return to_origin
        lines = list(pairwise(self.points))
        (left, left_s), (right, right_s) = next((line for line in lines if tokens <= line[1][0]), lines[-1])
        on_line = left_s + (right_s - left_s) / (right - left) * (tokens - left)
        return max(on_line, to_origin) if tokens < self.points[0][0] else on_line

    def tokens_in(self, seconds: float) -> int:
        """The longest prompt that is prefilled within `seconds`, at least 1."""
        high = 1
        while self.prefill_s(high) <= seconds:
            high *= 2
        low = high // 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.prefill_s(middle) <= seconds else (low, middle)
        return max(1, low)


@dataclass(frozen=True)
class Scale:
    """What a workload is multiplied with on one machine. `derivation` is the formula with its numbers.

    `decode_s_per_token` sets the pace at which planned answers are read; `min_documents` is the least number of
    requests of each class with documents, for which the duration is extended if the arrivals need it.
    """

    length_ratio: float
    rate_ratio: float
    duration_s: float
    derivation: str
    decode_s_per_token: float
    min_documents: int = 0


def choose_scale(
    workload: Workload, speed: Speed, *, target_load: float, document_prefill_s: float, max_model_len: int,
    min_documents: int = 22,
) -> Scale:
    """Make the median document take `document_prefill_s` and the arm without a tier use `target_load` of the engine.

    `target_load` is seconds of engine work per second. Only documents are scaled in length; all rates alike.
    Raises: SpecError if a class with documents leaves no room for one in `max_model_len`.
    """
    length_ratio, length_text = _length_ratio(workload, speed, document_prefill_s, max_model_len)
    works = {
        name: session_work_s(traffic, speed, length_ratio, max_model_len) for name, traffic in workload.classes.items()
    }
    load = sum(traffic.arrival.rate * works[name] for name, traffic in workload.classes.items())
    rate_ratio = target_load / load
    duration_s, duration_text = _duration_s(workload, rate_ratio, min_documents)
    sums = " + ".join(
        f"{traffic.arrival.rate:g}/s x {works[name]:.3g} s ({name})" for name, traffic in workload.classes.items()
    )
    derivation = "\n".join((
        length_text,
        "work of a session = sum over turns of prefill(mean prompt) + mean output x "
        f"{speed.decode_s_per_token:.3g} s x {DECODE_SHARE:g}",
        f"rate_ratio = target load {target_load:g} / ({sums}) = {target_load:g} / {load:.3g} = {rate_ratio:.4g}",
        duration_text,
    ))
    return Scale(length_ratio, rate_ratio, duration_s, derivation, speed.decode_s_per_token, min_documents)


def session_work_s(traffic: TrafficClass, speed: Speed, length_ratio: float, max_model_len: int) -> float:
    """Seconds of engine work that one session needs, all turns, by the model of this file."""
    answer = mean_tokens(traffic.output)
    decode_s = answer * speed.decode_s_per_token * DECODE_SHARE
    prompts = (min(prompt, max_model_len - answer) for prompt in _mean_prompts(traffic, length_ratio))
    return sum(speed.prefill_s(prompt) + decode_s for prompt in prompts)


def document_room(traffic: TrafficClass, max_model_len: int) -> int:
    """Tokens that `max_model_len` leaves for a document beside system prompt and all turns; may be below 1."""
    turns = traffic.turns * (long_tokens(traffic.input) + long_tokens(traffic.output))
    return max_model_len - system_tokens(traffic) - turns


def system_tokens(traffic: TrafficClass) -> int:
    """Tokens that each prompt of the class begins with."""
    return traffic.system_prompt.tokens if traffic.system_prompt else 0


def _mean_prompts(traffic: TrafficClass, length_ratio: float) -> Iterator[float]:
    """The mean prompt of each turn: system prompt, document, all earlier turns, the new input."""
    document = mean_tokens(traffic.documents.tokens) * length_ratio if traffic.documents else 0.0
    new, answer = mean_tokens(traffic.input), mean_tokens(traffic.output)
    for turn in range(1, traffic.turns + 1):
        yield system_tokens(traffic) + document + turn * new + (turn - 1) * answer


def _with_documents(workload: Workload) -> dict[str, tuple[TrafficClass, Documents]]:
    return {name: (traffic, traffic.documents) for name, traffic in workload.classes.items() if traffic.documents}


def _length_ratio(workload: Workload, speed: Speed, document_prefill_s: float, max_model_len: int) -> tuple[float, str]:
    classes = _with_documents(workload)
    if not classes:
        return 1.0, "length_ratio = 1: no class has documents"
    for name, (traffic, _) in classes.items():
        if document_room(traffic, max_model_len) < 1:
            raise SpecError(
                f"class {name} leaves no room for a document: system prompt, questions and answers fill all "
                f"{max_model_len} tokens of the context",
                where=f"workload {workload.name}", hint="shorten input or output, or use a model with a longer context",
            )
    wanted = speed.tokens_in(document_prefill_s)
    median = max(median_tokens(documents.tokens) for _, documents in classes.values())
    fits = [(document_room(traffic, max_model_len), long_tokens(docs.tokens)) for traffic, docs in classes.values()]
    room, longest = min(fits, key=lambda fit: fit[0] / fit[1])
    ratio = min(wanted / median, room / longest)
    return ratio, (
        f"length_ratio = min({wanted} tokens prefilled in {document_prefill_s:g} s / median document {median:g}, "
        f"room {room} / longest document {longest}) = {ratio:.4g}"
    )


def _duration_s(workload: Workload, rate_ratio: float, min_documents: int) -> tuple[float, str]:
    """Long enough for the wanted requests to be expected; a plan goes on until they have really arrived."""
    wanted_s, text = workload.duration, f"duration = {workload.duration:.4g} s as written"
    for name, (traffic, _) in _with_documents(workload).items():
        rate = traffic.arrival.rate * rate_ratio * traffic.turns
        needed_s = min_documents / rate
        if needed_s > wanted_s:
            wanted_s = needed_s
            text = f"duration = {min_documents} requests of {name} / {rate:.4g} per s = {needed_s:.4g} s"
    return wanted_s, text
