"""Golden answers: each prompt once, alone, greedy, on an engine without tier and prefix cache; cached."""

import hashlib
import math
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from testbed.clock import now_s
from testbed.engines.agreement import TIE_GAP_NATS
from testbed.engines.api import EngineApi
from testbed.errors import DeployError, RunError
from testbed.journal.manifest import Golden, GoldenAnswer
from testbed.workload.request import PlannedRequest

Talk = Callable[[str], None]
_REPEATS = 8
_AT_ONCE = 4
_LEAST_GAP_NATS = 0.002
"""Where concurrent repeats show no difference at all, this much is still a tie: about ten times float32's rounding."""


class Stored(msgspec.Struct, frozen=True):
    """Answers of one environment, and the gap up to which a difference there is a near-tie."""

    environment: dict[str, str]
    tie_gap_nats: float | None
    answers: dict[str, GoldenAnswer]


@dataclass(frozen=True)
class GoldenStore:
    """The cached answers of one environment: model, dtype, engine version, processor."""

    path: Path
    stored: Stored

    @property
    def tie_gap_nats(self) -> float:
        """The gap up to which a difference is a near-tie.

        Raises: RunError before any answer was asked.
        """
        if self.stored.tie_gap_nats is None:
            raise RunError("no golden answers were asked yet", where=str(self.path))
        return self.stored.tie_gap_nats

    def missing(self, requests: Sequence[PlannedRequest]) -> list[PlannedRequest]:
        """One request for each prompt that has no answer yet, the shortest first."""
        fresh = {one.prompt_key: one for one in requests if one.prompt_key not in self.stored.answers}
        return sorted(fresh.values(), key=lambda one: (len(one.prompt), one.prompt_key))

    def complete_for(self, requests: Sequence[PlannedRequest]) -> bool:
        """Whether nothing has to be asked."""
        return not self.missing(requests) and self.stored.tie_gap_nats is not None

    def answers_to(self, requests: Sequence[PlannedRequest]) -> Golden:
        """The answers to these requests."""
        return {one.prompt_key: self.stored.answers[one.prompt_key] for one in requests}


def open_store(cache: Path, environment: Mapping[str, str]) -> GoldenStore:
    """The store of an environment, empty if there is none yet.

    Raises: DeployError if the file is damaged.
    """
    text = msgspec.json.encode(dict(environment), order="sorted")
    path = cache / "golden" / f"{hashlib.sha256(text).hexdigest()[:16]}.json"
    if path.is_file():
        try:
            return GoldenStore(path, msgspec.json.decode(path.read_bytes(), type=Stored))
        except msgspec.MsgspecError as problem:
            raise DeployError(
                f"holds no golden answers: {problem}", where=str(path), hint="remove it; they are asked again"
            ) from problem
    return GoldenStore(path, Stored(dict(environment), None, {}))


def ask_missing(store: GoldenStore, requests: Sequence[PlannedRequest], engine: EngineApi, talk: Talk) -> GoldenStore:
    """Ask the engine for every answer that is not there yet, one at a time; keep them.

    Raises: RunError if the engine's caches had a hand in an answer, or concurrency moves answers by more than a tie.
    """
    fresh = store.missing(requests)
    answers = dict(store.stored.answers)
    told_s = now_s()
    for number, request in enumerate(fresh, start=1):
        answers[request.prompt_key] = _ask(engine, request, "golden")
        if now_s() - told_s > 8.0:
            told_s = now_s()
            _write(store.path, Stored(store.stored.environment, store.stored.tie_gap_nats, answers))
            talk(f"golden answers: {number} of {len(fresh)}")
    gap = store.stored.tie_gap_nats
    if gap is None:
        dtype = store.stored.environment["dtype"]
        gap = _tie_gap(engine, [one for one in requests if one.prompt_key in answers], answers, TIE_GAP_NATS[dtype])
        talk(f"golden answers: a gap of up to {gap:.4g} nats counts as a tie")
    stored = Stored(store.stored.environment, gap, answers)
    _write(store.path, stored)
    return GoldenStore(store.path, stored)


def _ask(engine: EngineApi, request: PlannedRequest, prefix: str) -> GoldenAnswer:
    extra: dict[str, Any] = {"logprobs": 2, "return_tokens_as_token_ids": True}
    if request.stop == "forced":
        extra |= {"ignore_eos": True, "min_tokens": request.max_tokens}
    answer = engine.complete(request.prompt, request.max_tokens, f"{prefix}.{request.prompt_key}", extra)
    details = answer["usage"].get("prompt_tokens_details")
    if details is not None and details["cached_tokens"]:
        raise RunError("a golden answer came from a cache", where=request.prompt_key)
    return read_answer(answer["choices"][0])


def read_answer(choice: Mapping[str, Any]) -> GoldenAnswer:
    """Token ids, runners-up and gaps out of one choice with `logprobs` 2."""
    ids = [int(one) for one in choice["token_ids"]]
    seconds: list[int] = []
    gaps: list[float] = []
    for chosen, top in zip(ids, choice["logprobs"]["top_logprobs"], strict=True):
        values = {int(name.removeprefix("token_id:")): float(value) for name, value in top.items()}
        second = max((one for one in values if one != chosen), key=lambda one: values[one])
        seconds.append(second)
        gaps.append(max(0.0, values[chosen] - values[second]))
    if not all(map(math.isfinite, gaps)):
        raise RunError("the engine gave a log-probability that is not a number", where="golden")
    return GoldenAnswer(token_ids=ids, second_ids=seconds, gaps_nats=gaps, finish_reason=str(choice["finish_reason"]))


def _tie_gap(engine: EngineApi, requests: Sequence[PlannedRequest], answers: Golden, limit: float) -> float:
    """Twice the largest golden gap at which asking several at a time changed a token.

    Raises: RunError when that is above `limit`: then this engine's answers depend on what runs beside them.
    """
    some = list({one.prompt_key: one for one in requests}.values())[:_REPEATS]
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        repeats = list(pool.map(lambda one: _ask(engine, one, "golden-repeat"), some))
    gaps = [_first_gap(answers[one.prompt_key], repeat) for one, repeat in zip(some, repeats, strict=True)]
    widest = 2 * max(gaps, default=0.0)
    if widest > limit:
        raise RunError(
            f"asked {_AT_ONCE} at a time, an answer changed at a gap of {widest / 2:.3g} nats; allowed is {limit / 2:g}"
        )
    return max(widest, _LEAST_GAP_NATS)


def _first_gap(right: GoldenAnswer, other: GoldenAnswer) -> float:
    for number, (one, two) in enumerate(zip(right.token_ids, other.token_ids, strict=False)):
        if one != two:
            return right.gaps_nats[number]
    return 0.0


def _write(path: Path, stored: Stored) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_bytes(msgspec.json.encode(stored))
    partial.replace(path)
