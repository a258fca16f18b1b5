"""Speed from a made-up engine whose times are known."""

from collections.abc import Sequence

import pytest

from testbed.engines.speed import measure_speed


class ModelledEngine:
    """0.1 s, `prefill_s` for each prompt token, and 0.05 s for each token after the first."""

    def __init__(self, prefill_s: float) -> None:
        self.prefill_s = prefill_s
        self.prompts: list[tuple[int, ...]] = []

    def ask(self, prompt: Sequence[int], max_tokens: int) -> float:
        self.prompts.append(tuple(prompt))
        return 0.1 + self.prefill_s * len(prompt) + 0.05 * (max_tokens - 1)


def quiet(text: str) -> None:
    """Nobody listens."""


def test_times_of_a_known_engine_come_back() -> None:
    speed = measure_speed(ModelledEngine(0.001).ask, 512, 1100, quiet)
    # 0.1 + 0.001 x 64 = 0.164 and so on; longer than 1,100 is not asked
    assert {point.prompt_tokens: round(point.median_s, 9) for point in speed.prefill} == {
        64: 0.164, 256: 0.356, 512: 0.612, 1024: 1.124,
    }
    # both prompts have 64 tokens, so (0.164 + 24 x 0.05 - 0.164) / 24 = 0.05
    assert speed.decode_s_per_token == pytest.approx(0.05)
    assert len(speed.decode_tries_s) == 3


def test_a_length_that_would_take_too_long_is_left_out() -> None:
    # 512 tokens take 0.1 + 4.096 = 4.196 s, so 1,024 are expected to take 8.4 s, more than 5
    speed = measure_speed(ModelledEngine(0.008).ask, 512, 8192, quiet)
    assert [point.prompt_tokens for point in speed.prefill] == [64, 256, 512]


def test_a_slow_engine_is_still_measured_at_two_lengths() -> None:
    # 64 tokens take 0.1 + 6.4 s, so 256 are expected to take far more than 5 s
    speed = measure_speed(ModelledEngine(0.1).ask, 512, 8192, quiet)
    assert [point.prompt_tokens for point in speed.prefill] == [64, 256]


def test_a_fast_engine_is_asked_longer_prompts() -> None:
    speed = measure_speed(ModelledEngine(0.0005).ask, 512, 8192, quiet)
    assert speed.prefill[-1].prompt_tokens == 4096


def test_no_two_prompts_begin_alike_and_none_has_a_special_token() -> None:
    engine = ModelledEngine(0.0005)
    measure_speed(engine.ask, 512, 8192, quiet)
    beginnings = [prompt[:16] for prompt in engine.prompts]
    assert len(set(beginnings)) == len(beginnings)
    # the lowest eighth of 512 ids is left out
    assert all(64 <= token < 512 for prompt in engine.prompts for token in prompt)


def test_each_length_is_said_as_it_is_done() -> None:
    said: list[str] = []
    measure_speed(ModelledEngine(0.008).ask, 512, 512, said.append)
    # 0.1 + 0.008 x 64 = 0.612, x 256 = 2.148, x 512 = 4.196; each one above 3 s is said as well
    assert said == [
        "prefill of 64 tokens: 0.61 s", "prefill of 256 tokens: 2.15 s",
        *["one prefill of 512 tokens took 4.2 s"] * 3, "prefill of 512 tokens: 4.20 s",
        *["decode: 0.050 s a token"] * 3,
    ]
