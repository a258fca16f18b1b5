"""Fit a workload to what a processor does: lengths of documents, rates and duration, by a stated model.

The same YAML runs on a laptop and on a GPU. The model of the load is plain on purpose: every prompt is prefilled in
full (no cache of any kind), and a decode step serves about two requests, so each output token costs half a step.
Where there are long texts, documents or the prefixes of groups, these alone are scaled in length; in a workload without
any, inputs and answers are, and never made longer.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from testbed.errors import BoundError, SpecError
from testbed.spec.arrival import Closed
from testbed.spec.lengths import Lengths
from testbed.spec.workload import TrafficClass, Workload
from testbed.workload.lengths import long_tokens, mean_tokens, median_tokens, shorter_answer, shorter_text
from testbed.workload.rates import usual_rate

DECODE_SHARE = 0.5
"""Share of a decode step that one of the requests in it is charged, since decodes batch."""

_HALVINGS = 20


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

    `length_ratio` is for long texts, `text_ratio` for inputs and answers. `decode_s_per_token` sets the pace at which
    planned answers are read; `min_documents` is the least number of requests of each class with long texts, for which
    the duration is extended if the arrivals need it.
    """

    length_ratio: float
    rate_ratio: float
    duration_s: float
    derivation: str
    decode_s_per_token: float
    min_documents: int = 0
    text_ratio: float = 1.0


def choose_scale(
    workload: Workload, speed: Speed, *, target_load: float, document_prefill_s: float, max_model_len: int,
    min_documents: int = 22, request_s: float | None = None,
) -> Scale:
    """Make the median long text take `document_prefill_s` and the arm without a tier use `target_load` of the engine.

    `target_load` is seconds of engine work per second. Where there are no long texts, a median request alone takes at
    most `request_s`, if that is given. All rates are scaled alike.
    Raises: SpecError if a class with long texts leaves no room for one in `max_model_len`.
    """
    length_ratio, length_text = _length_ratio(workload, speed, document_prefill_s, max_model_len)
    text_ratio, text_text = _text_ratio(workload, speed, request_s, max_model_len)
    works = {
        name: session_work_s(traffic, speed, length_ratio, max_model_len, text_ratio)
        for name, traffic in workload.classes.items()
    }
    rate_ratio, rate_text = _rate_ratio(workload, works, target_load)
    duration_s, duration_text = _duration_s(workload, works, rate_ratio, min_documents)
    work_text = (
        "work of a session = sum over turns of prefill(mean prompt) + mean output x "
        f"{speed.decode_s_per_token:.3g} s x {DECODE_SHARE:g}"
    )
    texts = (length_text, *text_text, work_text, rate_text, duration_text)
    decode_s = speed.decode_s_per_token
    return Scale(length_ratio, rate_ratio, duration_s, "\n".join(texts), decode_s, min_documents, text_ratio)


def class_rates(workload: Workload) -> dict[str, float]:
    """Sessions a second of each class as written; of a closed loop, which has no rate, there are none."""
    if isinstance(workload.arrival, Closed):
        return {}
    if workload.arrival is not None:
        rate = usual_rate(workload.arrival, workload.duration)
        return {name: rate * share for name, share in workload.shares.items()}
    return {
        name: usual_rate(traffic.arrival, workload.duration) for name, traffic in workload.classes.items()
        if traffic.arrival is not None and not isinstance(traffic.arrival, Closed)
    }


def session_work_s(
    traffic: TrafficClass, speed: Speed, length_ratio: float, max_model_len: int, text_ratio: float = 1.0
) -> float:
    """Seconds of engine work that one session needs, all its requests, by the model of this file."""
    answer = _answer_tokens(traffic, text_ratio)
    decode_s = answer * speed.decode_s_per_token * DECODE_SHARE
    prompts = (min(prompt, max_model_len - answer) for prompt in _mean_prompts(traffic, length_ratio, text_ratio))
    return sum(speed.prefill_s(prompt) + decode_s for prompt in prompts)


def document_room(traffic: TrafficClass, max_model_len: int) -> int:
    """Tokens that `max_model_len` leaves for a long text beside system prompt and all turns; may be below 1."""
    turns = traffic.turn_count * (long_tokens(traffic.input) + long_tokens(traffic.output))
    return max_model_len - system_tokens(traffic) - turns


def system_tokens(traffic: TrafficClass) -> int:
    """Tokens that each prompt of the class begins with."""
    return traffic.system_prompt.tokens if traffic.system_prompt else 0


def _answer_tokens(traffic: TrafficClass, text_ratio: float) -> float:
    mean = mean_tokens(traffic.output)
    return mean if text_ratio == 1.0 else float(shorter_answer(round(mean), text_ratio))


def _mean_prompts(traffic: TrafficClass, length_ratio: float, text_ratio: float) -> Iterator[float]:
    """The mean prompt of each request: system prompt, long text, all earlier turns, the new input."""
    before = system_tokens(traffic) + (mean_tokens(traffic.long_text) * length_ratio if traffic.long_text else 0.0)
    new, answer = mean_tokens(traffic.input) * text_ratio, _answer_tokens(traffic, text_ratio)
    if traffic.prefix_groups is not None:
        yield from (before + new for _ in range(traffic.session_requests))
        return
    for turn in range(1, traffic.turn_count + 1):
        yield before + turn * new + (turn - 1) * answer


def _with_long_texts(workload: Workload) -> dict[str, tuple[TrafficClass, Lengths]]:
    return {name: (traffic, traffic.long_text) for name, traffic in workload.classes.items() if traffic.long_text}


def _length_ratio(workload: Workload, speed: Speed, document_prefill_s: float, max_model_len: int) -> tuple[float, str]:
    classes = _with_long_texts(workload)
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
    median = max(median_tokens(lengths) for _, lengths in classes.values())
    fits = [(document_room(traffic, max_model_len), long_tokens(lengths)) for traffic, lengths in classes.values()]
    room, longest = min(fits, key=lambda fit: fit[0] / fit[1])
    ratio = min(wanted / median, room / longest)
    return ratio, (
        f"length_ratio = min({wanted} tokens prefilled in {document_prefill_s:g} s / median document {median:g}, "
        f"room {room} / longest document {longest}) = {ratio:.4g}"
    )


def _text_ratio(
    workload: Workload, speed: Speed, request_s: float | None, max_model_len: int
) -> tuple[float, tuple[str, ...]]:
    """The ratio for inputs and answers, at most 1, and the line that explains it where there is one."""
    if request_s is None or _with_long_texts(workload):
        return 1.0, ()

    def too_long(ratio: float) -> bool:
        return any(_too_long(traffic, speed, ratio, request_s, max_model_len) for traffic in workload.classes.values())

    ratio = _largest_ratio(too_long)
    return ratio, (
        f"text_ratio = {ratio:.4g}: inputs and answers, so that a median request alone takes at most {request_s:g} s",
    )


def _too_long(traffic: TrafficClass, speed: Speed, ratio: float, request_s: float, max_model_len: int) -> bool:
    prompt = system_tokens(traffic) + shorter_text(round(median_tokens(traffic.input)), ratio)
    answer = shorter_answer(round(median_tokens(traffic.output)), ratio)
    longest = system_tokens(traffic) + shorter_text(long_tokens(traffic.input), ratio)
    longest += shorter_answer(long_tokens(traffic.output), ratio)
    takes_s = speed.prefill_s(prompt) + answer * speed.decode_s_per_token
    return takes_s > request_s or longest > max_model_len


def _largest_ratio(too_large: Callable[[float], bool]) -> float:
    """The largest ratio up to 1 that is not too large, or nearly 0 where all are."""
    if not too_large(1.0):
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if too_large(middle) else (middle, high)
    return max(low, 0.5**_HALVINGS)


def _rate_ratio(workload: Workload, works: Mapping[str, float], target_load: float) -> tuple[float, str]:
    rates = class_rates(workload)
    if not rates:
        return 1.0, "rate_ratio = 1: a closed loop has no rate"
    load = sum(rate * works[name] for name, rate in rates.items())
    ratio = target_load / load
    sums = " + ".join(f"{rate:g}/s x {works[name]:.3g} s ({name})" for name, rate in rates.items())
    return ratio, f"rate_ratio = target load {target_load:g} / ({sums}) = {target_load:g} / {load:.3g} = {ratio:.4g}"


def _duration_s(
    workload: Workload, works: Mapping[str, float], rate_ratio: float, min_documents: int
) -> tuple[float, str]:
    """Long enough for the wanted requests to be expected; a plan goes on until they have really arrived."""
    if workload.duration is None:
        return _duration_of_requests_s(workload, works, rate_ratio)
    rates = class_rates(workload)
    wanted_s, text = workload.duration, f"duration = {workload.duration:.4g} s as written"
    for name, (traffic, _) in _with_long_texts(workload).items():
        rate = rates[name] * rate_ratio * traffic.turn_count
        needed_s = min_documents / rate
        if needed_s > wanted_s:
            wanted_s = needed_s
            text = f"duration = {min_documents} requests of {name} / {rate:.4g} per s = {needed_s:.4g} s"
    return wanted_s, text


def _duration_of_requests_s(
    workload: Workload, works: Mapping[str, float], rate_ratio: float
) -> tuple[float, str]:
    """About as long as the wanted requests take; of a closed loop, their work one after the other."""
    wanted, classes = workload.requests, workload.classes
    if wanted is None:
        raise SpecError("a workload without an end", hint="give exactly one of duration, requests")
    rates = class_rates(workload)
    if rates:
        rate = sum(each * rate_ratio * classes[name].session_requests for name, each in rates.items())
        return wanted / rate, f"duration = {wanted} requests / {rate:.4g} per s = {wanted / rate:.4g} s"
    shares = workload.shares
    session = sum(share * classes[name].session_requests for name, share in shares.items())
    each_s = sum(share * works[name] for name, share in shares.items()) / session
    return wanted * each_s, f"duration = about {wanted} requests x {each_s:.3g} s of work = {wanted * each_s:.4g} s"
