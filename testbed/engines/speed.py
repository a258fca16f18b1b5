"""How fast one engine is when alone: what a workload is scaled by."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from testbed.engines.child import Talk

PROMPT_TOKENS = (64, 256, 512, 1024, 2048, 4096)
REPEATS = 3
DECODE_TOKENS = 24
_DECODE_PROMPT_TOKENS = 64
_LEAST_LENGTHS = 2  # one length alone does not tell how time grows with it
_PREFILL_LIMIT_S = 5.0  # a length that would take longer, going by the one before, is left out

Ask = Callable[[Sequence[int], int], float]


@dataclass(frozen=True)
class PrefillPoint:
    """Seconds from request to whole answer of one token, for prompts of `prompt_tokens` never seen before."""

    prompt_tokens: int
    tries_s: tuple[float, ...]

    @property
    def median_s(self) -> float:
        """The middle one of the tries."""
        return median(self.tries_s)


@dataclass(frozen=True)
class Speed:
    """One engine, one request at a time. `decode_s_per_token` is the middle one of `decode_tries_s`."""

    prefill: tuple[PrefillPoint, ...]
    decode_s_per_token: float
    decode_tries_s: tuple[float, ...]
    decode_tokens: int


def measure_speed(ask: Ask, vocab_size: int, max_prompt_tokens: int, talk: Talk) -> Speed:
    """Time prefill at several lengths, then decode.

    `ask(prompt, max_tokens)` gives the seconds that one request took. No two prompts begin alike, so that no prefix
    cache helps.
    """
    prompts = random.Random(20240501)
    points: list[PrefillPoint] = []
    for tokens in PROMPT_TOKENS:
        too_slow = len(points) >= _LEAST_LENGTHS and _expected_s(points[-1], tokens) > _PREFILL_LIMIT_S
        if tokens > max_prompt_tokens or too_slow:
            break
        tries_s = [_timed(ask, _ids(prompts, vocab_size, tokens), talk) for _ in range(REPEATS)]
        points.append(PrefillPoint(tokens, tuple(tries_s)))
        talk(f"prefill of {tokens} tokens: {points[-1].median_s:.2f} s")
    decode_s = tuple(_decode_s(ask, prompts, vocab_size, talk) for _ in range(REPEATS))
    return Speed(tuple(points), median(decode_s), decode_s, DECODE_TOKENS)


def _expected_s(point: PrefillPoint, tokens: int) -> float:
    return point.median_s * tokens / point.prompt_tokens


def _timed(ask: Ask, prompt: Sequence[int], talk: Talk) -> float:
    took_s = ask(prompt, 1)
    if took_s > 3.0:
        talk(f"one prefill of {len(prompt)} tokens took {took_s:.1f} s")
    return took_s


def _decode_s(ask: Ask, prompts: random.Random, vocab_size: int, talk: Talk) -> float:
    """Seconds a token beyond the first: a long answer less a short one, over the tokens between them."""
    short_s = ask(_ids(prompts, vocab_size, _DECODE_PROMPT_TOKENS), 1)
    long_s = ask(_ids(prompts, vocab_size, _DECODE_PROMPT_TOKENS), 1 + DECODE_TOKENS)
    talk(f"decode: {(long_s - short_s) / DECODE_TOKENS:.3f} s a token")
    return (long_s - short_s) / DECODE_TOKENS


def _ids(prompts: random.Random, vocab_size: int, tokens: int) -> list[int]:
    return prompts.choices(range(vocab_size // 8, vocab_size), k=tokens)  # special tokens have the lowest ids
