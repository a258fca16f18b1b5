"""Golden answers: read, kept, and asked only once."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from testbed.errors import RunError
from testbed.experiment.golden import ask_missing, open_store, read_answer
from testbed.workload.request import PlannedRequest

ENVIRONMENT = {"model": "m", "dtype": "float32"}


def request(index: int, length: int = 20) -> PlannedRequest:
    return PlannedRequest(index, "doc", 0.0, tuple(range(index, index + length)), 2, "natural", 10.0)


class FakeEngine:
    """Answers 5 then 6; asked several at a time it may answer otherwise."""

    def __init__(self, cached: int = 0, together: Sequence[int] = (5, 6)) -> None:
        self.asked: list[str] = []
        self._cached = cached
        self._together = together

    def complete(self, prompt: Sequence[int], max_tokens: int, request_id: str, extra: Mapping[str, Any]) -> Any:
        self.asked.append(request_id)
        ids = list(self._together) if request_id.startswith("golden-repeat") else [5, 6]
        top = [{f"token_id:{one}": -0.1, "token_id:9": -0.13} for one in ids]
        choice = {"token_ids": ids, "logprobs": {"top_logprobs": top}, "finish_reason": "length"}
        return {"choices": [choice], "usage": {"prompt_tokens_details": {"cached_tokens": self._cached}}}


def silent(text: str) -> None:
    """Nobody listens."""


def test_an_answer_has_its_runner_up_and_the_gap_to_it() -> None:
    choice = {
        "token_ids": [5, 6],
        "finish_reason": "stop",
        "logprobs": {
            "top_logprobs": [{"token_id:5": -0.5, "token_id:7": -0.75}, {"token_id:8": -2.0, "token_id:6": -1.0}]
        },
    }
    answer = read_answer(choice)
    assert (answer.token_ids, answer.second_ids, answer.finish_reason) == ([5, 6], [7, 8], "stop")
    assert answer.gaps_nats == pytest.approx([0.25, 1.0])


def test_each_distinct_prompt_is_asked_once_and_kept(tmp_path: Path) -> None:
    engine = FakeEngine()
    requests = [request(0), request(1), request(0)]
    store = ask_missing(open_store(tmp_path, ENVIRONMENT), requests, engine, silent)  # type: ignore[arg-type]
    assert len([one for one in engine.asked if one.startswith("golden.")]) == 2
    again = open_store(tmp_path, ENVIRONMENT)
    assert again.complete_for(requests)
    assert again.answers_to(requests) == store.answers_to(requests)
    assert not open_store(tmp_path, ENVIRONMENT | {"dtype": "float16"}).complete_for(requests)


def test_an_answer_that_came_from_a_cache_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="from a cache"):
        ask_missing(open_store(tmp_path, ENVIRONMENT), [request(0)], FakeEngine(cached=16), silent)  # type: ignore[arg-type]


def test_equal_repeats_leave_the_least_gap(tmp_path: Path) -> None:
    store = ask_missing(open_store(tmp_path, ENVIRONMENT), [request(0)], FakeEngine(), silent)  # type: ignore[arg-type]
    assert store.tie_gap_nats == 0.002


def test_a_repeat_that_differs_at_a_wide_gap_fails_the_set_up(tmp_path: Path) -> None:
    # the first answer's gap is 0.03 nats; twice that is above the 0.05 that float32 may have
    engine = FakeEngine(together=(8, 6))
    with pytest.raises(RunError, match=r"a gap of 0.03 nats; allowed is 0.025"):
        ask_missing(open_store(tmp_path, ENVIRONMENT), [request(0)], engine, silent)  # type: ignore[arg-type]
