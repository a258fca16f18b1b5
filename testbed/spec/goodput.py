"""The words after `--goodput`: what an answer must keep to be good, in the form that users of other tools know.

A word is METRIC:MILLISECONDS, or CLASS:METRIC:MILLISECONDS for one traffic class alone.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from testbed.errors import SpecError
from testbed.spec.suggest import did_you_mean

# vLLM's names first, then what AIPerf calls the same; ours are the fields of AnswerLimits.
METRICS = {
    "ttft": "ttft_s", "tpot": "tpot_s", "e2el": "e2e_s",
    "time_to_first_token": "ttft_s", "inter_token_latency": "tpot_s", "request_latency": "e2e_s",
}
WHERE = "--goodput"
EXAMPLE = "write METRIC:MILLISECONDS, such as --goodput ttft:300 tpot:50 e2el:5000, or CLASS:METRIC:MILLISECONDS"


@dataclass(frozen=True)
class AnswerLimits:
    """The most that a good answer of one class may take, in seconds; None where it is not limited."""

    ttft_s: float | None = None
    tpot_s: float | None = None
    e2e_s: float | None = None


def answer_limits(words: Sequence[str], classes: Sequence[str]) -> dict[str, AnswerLimits]:
    """The limits of each of `classes`: what was said of all of them, replaced where a class has its own.

    A class without any limit is left out. One string may hold several words, as other tools want it.
    Raises: SpecError
    """
    of_all: dict[str, float] = {}
    of_class: dict[str, dict[str, float]] = {name: {} for name in classes}
    for word in (one for text in words for one in text.split()):
        traffic_class, metric, limit_s = _parsed(word, classes)
        target = of_all if traffic_class is None else of_class[traffic_class]
        if metric in target:
            raise SpecError(f"{word!r} limits what another word limits already", where=WHERE)
        target[metric] = limit_s
    merged = {name: {**of_all, **own} for name, own in of_class.items()}
    return {name: AnswerLimits(**limits) for name, limits in merged.items() if limits}


def _parsed(word: str, classes: Sequence[str]) -> tuple[str | None, str, float]:
    parts = word.split(":")
    if len(parts) not in (2, 3):
        raise SpecError(f"{word!r} is no limit", where=WHERE, hint=EXAMPLE)
    traffic_class = parts[0] if len(parts) == 3 else None
    name, text = parts[-2:]
    if traffic_class is not None and traffic_class not in classes:
        near = did_you_mean(traffic_class, classes)
        raise SpecError(
            f"{word!r}: there is no traffic class {traffic_class!r}", where=WHERE,
            hint=near if near else f"classes are {', '.join(classes)}",
        )
    metric = METRICS.get(name)
    if metric is None:
        near = did_you_mean(name, METRICS)
        raise SpecError(
            f"{word!r}: {name!r} can't be limited", where=WHERE, hint=near if near else "known are ttft, tpot, e2el",
        )
    return traffic_class, metric, _limit_s(word, text)


def _limit_s(word: str, text: str) -> float:
    try:
        limit_ms = float(text)
    except ValueError as problem:
        raise SpecError(f"{word!r}: {text!r} is no number of milliseconds", where=WHERE, hint=EXAMPLE) from problem
    if not math.isfinite(limit_ms) or limit_ms <= 0:
        raise SpecError(f"{word!r}: a limit must be above 0 ms", where=WHERE)
    return limit_ms / 1000
