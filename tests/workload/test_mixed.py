"""The planned requests of an arm: the same for one seed, exact to the token, and independent class by class."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from testbed.errors import SpecError
from testbed.spec.workload import Workload
from testbed.workload.mixed import WorkloadPlan, plan_requests
from testbed.workload.request import PlannedRequest
from testbed.workload.scale import Scale

TOKENS = tuple(range(5000))
"""Each token is its own place, so a cut of real text shows as a run of neighbours."""


def chat(**changes: Any) -> dict[str, Any]:
    return {
        "arrival": {"process": "poisson", "rate": 1.0}, "system_prompt": {"tokens": 16}, "turns": 3, "think": "2s",
        "input": {"fixed": 10}, "output": {"fixed": 5}, "stop": "forced", "timeout": "60s", **changes,
    }


def documents(**changes: Any) -> dict[str, Any]:
    return {
        "arrival": {"process": "poisson", "rate": 0.5}, "input": {"fixed": 8}, "output": {"fixed": 4},
        "documents": {"count": 5, "tokens": {"uniform": [100, 200]}, "popularity": {"zipf": 1.0}},
        "stop": "natural", "timeout": "120s", **changes,
    }


def plan(*, seed: int = 7, max_model_len: int = 512, scale: Scale | None = None, **classes: Any) -> WorkloadPlan:
    workload = Workload.model_validate({"name": "w", "duration": "60s", "classes": classes})
    chosen = scale if scale is not None else scale_of()
    return plan_requests(workload, seed=seed, scale=chosen, tokens=TOKENS, max_model_len=max_model_len)


def scale_of(duration_s: float = 60.0, length_ratio: float = 1.0, min_documents: int = 0) -> Scale:
    return Scale(
        length_ratio=length_ratio, rate_ratio=1.0, duration_s=duration_s, derivation="", decode_s_per_token=0.1,
        min_documents=min_documents,
    )


def of_class(plan: WorkloadPlan, name: str) -> list[tuple[float, tuple[int, ...], int]]:
    return [(r.scheduled_at_s, r.prompt, r.max_tokens) for r in plan.requests if r.traffic_class == name]


def session(plan: WorkloadPlan, number: int) -> list[PlannedRequest]:
    return [request for request in plan.requests if request.session == number]


def test_one_seed_gives_one_plan_and_another_seed_another() -> None:
    assert plan(chat=chat(), docs=documents()) == plan(chat=chat(), docs=documents())
    assert plan(chat=chat(), docs=documents()).requests != plan(seed=8, chat=chat(), docs=documents()).requests


def test_requests_are_numbered_in_order_of_time() -> None:
    requests = plan(chat=chat(), docs=documents()).requests
    assert [request.index for request in requests] == list(range(len(requests)))
    assert [r.scheduled_at_s for r in requests] == sorted(r.scheduled_at_s for r in requests)


def test_changing_one_class_leaves_the_draws_of_the_other_alone() -> None:
    before = plan(chat=chat(), docs=documents())
    after = plan(docs=documents(), chat=chat(arrival={"process": "constant", "rate": 3.0}, input={"fixed": 31}))
    assert of_class(before, "docs") == of_class(after, "docs")
    assert of_class(before, "chat") != of_class(after, "chat")


def test_two_equal_classes_draw_differently() -> None:
    made = plan(a=documents(), b=documents())
    assert {at_s for at_s, _, _ in of_class(made, "a")}.isdisjoint(at_s for at_s, _, _ in of_class(made, "b"))
    assert len(set(made.documents)) == 10


def test_a_longer_duration_only_adds_requests() -> None:
    short = plan(docs=documents(), scale=scale_of(30.0))
    long = plan(docs=documents(), scale=scale_of(90.0))
    assert long.requests[: len(short.requests)] == short.requests
    assert len(long.requests) > len(short.requests)


def test_a_document_request_is_its_document_and_one_of_two_questions() -> None:
    made = plan(docs=documents())
    questions: dict[int, set[tuple[int, ...]]] = {}
    for request in made.requests:
        assert request.document is not None
        text = made.documents[request.document]
        assert request.prompt[: len(text)] == text
        assert len(request.prompt) == len(text) + 8
        questions.setdefault(request.document, set()).add(request.prompt[len(text) :])
    assert all(len(of_document) <= 2 for of_document in questions.values())


def test_texts_are_runs_of_the_corpus_that_begin_at_different_places() -> None:
    # 5000 tokens have 51 places for a text of 4950; 40 drawn with repeats would all but surely meet
    texts = {"count": 40, "tokens": {"fixed": 4950}, "popularity": {"zipf": 0}}
    made = plan(docs=documents(documents=texts), max_model_len=6000)
    assert all(text == tuple(range(text[0], text[0] + 4950)) for text in made.documents)
    assert len({text[0] for text in made.documents}) == 40


def test_popular_documents_are_asked_by_one_over_rank() -> None:
    made = plan(docs=documents(), scale=scale_of(8000.0))
    asked = Counter(request.document for request in made.requests)
    # weights 1, 1/2, 1/3, 1/4, 1/5 sum to 2.28333: the first has 0.438 of all, the last 0.0876
    assert asked[0] / asked.total() == pytest.approx(0.438, abs=0.03)
    assert asked[4] / asked.total() == pytest.approx(0.0876, abs=0.02)


def test_a_turn_holds_all_earlier_turns_and_follows_by_thinking_and_reading() -> None:
    first, second, third = session(plan(chat=chat(), scale=scale_of(200.0)), 0)
    # system 16 + input 10; then + answer 5 + input 10 each turn
    assert [len(turn.prompt) for turn in (first, second, third)] == [26, 41, 56]
    assert second.prompt[:26] == first.prompt
    assert third.prompt[:41] == second.prompt
    assert [turn.turn for turn in (first, second, third)] == [1, 2, 3]
    # think 2 s + 5 tokens x 0.1 s
    assert second.scheduled_at_s - first.scheduled_at_s == pytest.approx(2.5)
    assert third.scheduled_at_s - second.scheduled_at_s == pytest.approx(2.5)


def test_all_chats_share_the_system_prompt_of_their_class() -> None:
    assert len({request.prompt[:16] for request in plan(chat=chat()).requests}) == 1


def test_turns_due_after_the_duration_are_dropped_and_counted() -> None:
    # constant: sessions at 0, 2 and 4 s; turns 2.5 s apart and 5 s long: 0, 2.5 | 2, 4.5 | 4 fall inside
    made = plan(chat=chat(arrival={"process": "constant", "rate": 0.5}), scale=scale_of(5.0))
    assert [request.scheduled_at_s for request in made.requests] == [0.0, 2.0, 2.5, 4.0, 4.5]
    assert made.cut.too_late == 9 - 5


def test_the_duration_grows_until_enough_document_requests_fall_inside() -> None:
    made = plan(chat=chat(), docs=documents(), scale=scale_of(5.0, min_documents=22))
    assert Counter(request.traffic_class for request in made.requests)["docs"] >= 22
    assert made.duration_s > 5.0
    assert max(r.scheduled_at_s for r in made.requests if r.traffic_class == "chat") > 5.0


def test_documents_are_as_long_as_the_scaled_distribution_says() -> None:
    made = plan(docs=documents(), scale=scale_of(length_ratio=0.1))
    assert all(10 <= len(text) <= 20 for text in made.documents)


def test_the_fill_asks_each_document_once_and_is_not_measured() -> None:
    made = plan(chat=chat(), docs=documents())
    assert [request.prompt for request in made.fill] == list(made.documents)
    assert [request.document for request in made.fill] == [0, 1, 2, 3, 4]
    assert {(r.max_tokens, r.stop, r.measured) for r in made.fill} == {(1, "natural", False)}


def test_documents_too_long_for_the_context_are_cut_and_counted() -> None:
    # room for a document: 112 - 8 - 4 = 100
    tokens = {"count": 3, "tokens": {"fixed": 150}, "popularity": {"zipf": 0}}
    made = plan(docs=documents(documents=tokens), max_model_len=112)
    assert [len(text) for text in made.documents] == [100, 100, 100]
    assert made.cut.documents == 3


def test_a_chat_that_outgrows_the_context_is_cut_then_dropped_and_counted() -> None:
    # turn 1: 16 + 10 + 5 = 31 fits 36; turn 2 has 36 - 31 = 5 tokens: input cut to 1, answer to 4; turn 3 has none
    made = plan(chat=chat(arrival={"process": "constant", "rate": 0.01}), max_model_len=36)
    assert [(len(request.prompt), request.max_tokens) for request in made.requests] == [(26, 5), (32, 4)]
    assert (made.cut.inputs, made.cut.outputs, made.cut.too_long) == (1, 1, 1)


@pytest.mark.parametrize("traffic", [chat(), documents()])
def test_a_context_without_room_for_any_request_is_refused(traffic: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match="no room"):
        plan(max_model_len=12, traffic=traffic)


def test_a_corpus_that_is_too_short_is_refused() -> None:
    longer = {"count": 1, "tokens": {"fixed": 6000}, "popularity": {"zipf": 0}}
    with pytest.raises(SpecError, match="too short"):
        plan(docs=documents(documents=longer), max_model_len=9000)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32), max_model_len=st.integers(60, 600), median=st.integers(1, 80), turns=st.integers(1, 4),
    length_ratio=st.floats(0.05, 2.0),
)
def test_no_prompt_with_its_answer_exceeds_the_context(
    seed: int, max_model_len: int, median: int, turns: int, length_ratio: float
) -> None:
    lengths = {"lognormal": {"median": median, "p95": median * 4}}
    made = plan(
        seed=seed, max_model_len=max_model_len, scale=scale_of(20.0, length_ratio),
        chat=chat(input=lengths, output=lengths, turns=turns), docs=documents(),
    )
    assert all(1 <= request.max_tokens <= max_model_len - len(request.prompt) for request in made.requests + made.fill)
    assert all(0 <= request.scheduled_at_s < made.duration_s for request in made.requests)


def test_the_workload_of_the_demo_can_be_planned() -> None:
    text = (Path(__file__).resolve().parents[2] / "configs" / "workloads" / "mixed.yaml").read_text()
    workload = Workload.model_validate(YAML(typ="safe").load(text))
    made = plan_requests(workload, seed=7, scale=scale_of(min_documents=22), tokens=TOKENS, max_model_len=4096)
    assert {request.traffic_class for request in made.requests} == set(workload.classes)
    assert {request.document for request in made.requests} - {None} <= set(range(len(made.documents)))
    assert len(made.fill) == len(made.documents) > 0
