"""Which dtype this processor does fast *and* right, and how fast: found once with the real engine, then read back.

Matrix products are timed per dtype. Going from the fastest on, an engine is started and its greedy answers are
compared with those of transformers at float32; the first dtype that is right is taken, and its speed measured.
"""

import hashlib
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from testbed import clock
from testbed.engines.agreement import TIE_GAP_NATS, Agreement, Reference, compare
from testbed.engines.child import Talk, run_python
from testbed.engines.lock import held
from testbed.engines.models import IDENTITY, read_identity, read_shape
from testbed.engines.processor import Processor, installed_versions, read_processor
from testbed.engines.solo import SoloEngine, engine_alone
from testbed.engines.speed import PROMPT_TOKENS, Speed, measure_speed
from testbed.errors import DeployError, RunError
from testbed.missing import Missing

_RECIPE = 1  # raised when preflight measures something else, so that older records are not read
_KV_BYTES = 900_000_000  # of the 1 GiB that the engine is given
_ROOM_TOKENS = 64


@dataclass(frozen=True)
class MatmulTiming:
    """The matrix product of a prefill at one dtype; `median_s` over `tries`."""

    dtype: str
    median_s: float
    gflop_per_s: float
    tries: int


@dataclass(frozen=True)
class Trial:
    """One engine at one dtype. `problem` says why it gave no answers; `speed` is there if all answers were right."""

    dtype: str
    ready_s: float | None
    agreements: tuple[Agreement, ...]
    problem: str = ""
    speed: Speed | None = None

    @property
    def right(self) -> bool:
        """Whether it answered, and each answer is equal or a near-tie."""
        return bool(self.agreements) and all(agreement.kind != "wrong" for agreement in self.agreements)


@dataclass(frozen=True)
class Candidate:
    """What became of one dtype, and why."""

    dtype: str
    verdict: Literal["taken", "wrong", "failed", "not_tried"]
    detail: str
    agreements: tuple[Agreement, ...] = ()


@dataclass(frozen=True)
class PreflightKey:
    """What a record holds for; another processor, version or model needs another."""

    processor: Processor
    versions: dict[str, str]
    model: str
    weights_sha256: str
    recipe: int = _RECIPE

    @property
    def file_name(self) -> str:
        """Readable in front, with a digest of the whole key."""
        digest = hashlib.sha256(msgspec.json.encode(asdict(self), order="deterministic")).hexdigest()[:12]
        processor = re.sub(r"[^a-z0-9]+", "-", self.processor.name.lower()).strip("-")
        return f"{processor}-{self.model}-{digest}.json"


@dataclass(frozen=True)
class PreflightRecord:
    """The dtype to serve with, the evidence for it, and the speed of one engine with it."""

    key: PreflightKey
    dtype: str
    reason: str
    matmuls: tuple[MatmulTiming, ...]
    candidates: tuple[Candidate, ...]
    speed: Speed
    engine_ready_s: float
    took_s: float
    created: str


class Measure(Protocol):
    """The slow parts of a preflight; tests hand in one that needs no engine."""

    def matmuls(self, talk: Talk) -> Sequence[MatmulTiming]:
        """One timing per dtype."""

    def trial(self, model_folder: Path, dtype: str, talk: Talk) -> Trial:
        """Start an engine at `dtype`, compare its answers, and measure its speed if they are right."""


def preflight(
    model_folder: Path, model_name: str, cache: Path, talk: Talk, measure: Measure | None = None,
) -> PreflightRecord:
    """The record for this processor, these versions and this model: read from `cache`/preflight, or measured now.

    Raises: DeployError if no dtype is right on this machine.
    """
    key = PreflightKey(read_processor(), installed_versions(), model_name, weights_sha256(model_folder))
    path = cache / "preflight" / key.file_name
    if path.exists():
        return read_record(path)
    with held(path.parent / ".lock", "measuring this machine", talk):
        if not path.exists():
            write_record(path, _measure(key, model_folder, talk, EngineMeasure() if measure is None else measure))
    return read_record(path)


def _measure(key: PreflightKey, model_folder: Path, talk: Talk, measure: Measure) -> PreflightRecord:
    began_s = clock.now_s()
    talk(f"first run with model {key.model} on this processor ({key.processor.name}): measuring what it does right")
    matmuls = tuple(sorted(measure.matmuls(talk), key=lambda timing: timing.median_s))
    talk("matrix products: " + ", ".join(f"{one.dtype} {one.gflop_per_s:.0f} GFLOP/s" for one in matmuls))
    taken, candidates = choose_dtype(
        [timing.dtype for timing in matmuls], lambda dtype: measure.trial(model_folder, dtype, talk),
    )
    for candidate in candidates:
        talk(f"dtype {candidate.dtype}: {candidate.verdict.replace('_', ' ')}; {candidate.detail}")
    if taken is None or taken.speed is None or taken.ready_s is None:
        said = "\n".join(f"{one.dtype}: {one.verdict}: {one.detail}" for one in candidates)
        raise DeployError(f"no dtype gives right answers from model {key.model} on this processor:\n{said}")
    return PreflightRecord(
        key, taken.dtype, next(one.detail for one in candidates if one.verdict == "taken"), matmuls, candidates,
        taken.speed, taken.ready_s, clock.now_s() - began_s, clock.wall_time_text(),
    )


def choose_dtype(
    order: Sequence[str], try_dtype: Callable[[str], Trial],
) -> tuple[Trial | None, tuple[Candidate, ...]]:
    """Try dtypes in `order` (fastest first) until one is right; the others behind it are not tried.

    Returns None for the trial if none is right.
    """
    taken: Trial | None = None
    candidates: list[Candidate] = []
    for dtype in order:
        if taken is not None:
            detail = f"{taken.dtype} is right, and its matrix products are faster"
            candidates.append(Candidate(dtype, "not_tried", detail))
            continue
        trial = try_dtype(dtype)
        candidates.append(_judge(trial))
        taken = trial if trial.right else None
    return taken, tuple(candidates)


def _judge(trial: Trial) -> Candidate:
    wrong = [agreement for agreement in trial.agreements if agreement.kind == "wrong"]
    if wrong:
        detail = f"{len(wrong)} of {len(trial.agreements)} greedy answers are wrong: {wrong[0].detail}"
        return Candidate(trial.dtype, "wrong", detail, trial.agreements)
    if not trial.right:
        return Candidate(trial.dtype, "failed", trial.problem)
    near = sum(agreement.kind == "near_tie" for agreement in trial.agreements)
    detail = f"{len(trial.agreements)} greedy answers agree with transformers at float32, {near} of them near-ties"
    return Candidate(trial.dtype, "taken", detail, trial.agreements)


class EngineMeasure:
    """The real thing: child processes with torch, and one engine at a time."""

    def __init__(self) -> None:
        self._references: tuple[Reference, ...] = ()

    def matmuls(self, talk: Talk) -> Sequence[MatmulTiming]:
        """About ten seconds, most of them the import of torch."""
        text = run_python(["-m", "testbed.engines.matmul"], what="timing matrix products", talk=talk, limit_s=300.0)
        return msgspec.json.decode(text, type=tuple[MatmulTiming, ...])

    def trial(self, model_folder: Path, dtype: str, talk: Talk) -> Trial:
        """About a minute; an engine that doesn't start is a result, not an error."""
        shape = read_shape(model_folder)
        max_len = min(shape.max_positions, max(PROMPT_TOKENS) + _ROOM_TOKENS, _KV_BYTES // shape.kv_bytes_per_token(4))
        began_s = clock.now_s()
        talk(f"starting an engine with {dtype}")
        with engine_alone(model_folder, dtype, max_len) as engine:
            references = self._reference_answers(model_folder, talk)  # while the engine imports and loads
            try:
                engine.await_ready(talk)
                ready_s = clock.now_s() - began_s
                talk(f"engine with {dtype} is ready after {ready_s:.0f} s")
                agreements = _agreements(engine, references, TIE_GAP_NATS[dtype], talk)
            except (DeployError, RunError) as problem:
                return Trial(dtype, None, (), problem=problem.message)
            trial = Trial(dtype, ready_s, agreements)
            if not trial.right:
                return trial
            speed = measure_speed(
                lambda prompt, tokens: engine.answer(prompt, tokens)[1],
                shape.vocab_size, max_len - _ROOM_TOKENS, talk,
            )
            return Trial(dtype, ready_s, agreements, speed=speed)

    def _reference_answers(self, model_folder: Path, talk: Talk) -> tuple[Reference, ...]:
        if not self._references:
            text = run_python(
                ["-m", "testbed.engines.reference", str(model_folder)],
                what="greedy answers by transformers at float32", talk=talk, limit_s=300.0,
            )
            self._references = msgspec.json.decode(text, type=tuple[Reference, ...])
        return self._references


def _agreements(
    engine: SoloEngine, references: Sequence[Reference], tie_gap_nats: float, talk: Talk,
) -> tuple[Agreement, ...]:
    found: list[Agreement] = []
    for one in references:
        token_ids, _ = engine.answer(one.prompt, len(one.golden.token_ids))
        found.append(compare(one.golden, token_ids, tie_gap_nats))
        talk(f"greedy answer {len(found)} of {len(references)}: {found[-1].kind.replace('_', '-')}")
    return tuple(found)


def weights_sha256(model_folder: Path) -> str:
    """What tells one model from another: the recorded digest of a built one, else one of config and file sizes."""
    if (model_folder / IDENTITY).exists():
        return read_identity(model_folder).weights_sha256
    read_shape(model_folder)  # refuses what is no model folder
    digest = hashlib.sha256((model_folder / "config.json").read_bytes())
    for path in sorted(model_folder.glob("*.safetensors")):
        digest.update(f"{path.name} {path.stat().st_size}".encode())
    return digest.hexdigest()


def write_record(path: Path, record: PreflightRecord) -> None:
    """Store a record whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_bytes(msgspec.json.format(msgspec.json.encode(record)) + b"\n")
    partial.rename(path)


def read_record(path: Path) -> PreflightRecord:
    """Raises: DeployError if the file isn't a record of this version."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=PreflightRecord)
    except msgspec.MsgspecError as problem:
        raise DeployError(
            f"is not a preflight record: {problem}", where=str(path), hint="remove it; the next run measures again",
        ) from problem


def prefill_s(speed: Speed, tokens: int) -> float | Missing:
    """Seconds that one prefill of `tokens` takes alone, on straight lines between the measured lengths.

    Missing beyond the longest measured; below the shortest, that one's time.
    """
    points = speed.prefill
    if tokens > points[-1].prompt_tokens:
        return Missing(f"prefill was measured up to {points[-1].prompt_tokens} tokens, not {tokens}")
    if tokens <= points[0].prompt_tokens:
        return points[0].median_s
    above = next(index for index, point in enumerate(points) if point.prompt_tokens >= tokens)
    low, high = points[above - 1], points[above]
    share = (tokens - low.prompt_tokens) / (high.prompt_tokens - low.prompt_tokens)
    return low.median_s + share * (high.median_s - low.median_s)
