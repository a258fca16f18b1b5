"""Conversations: roles are read, turns are kept, and what is left out of them is told."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.errors import SpecError
from testbed.spec.trace import Trace
from testbed.workload.trace.plan import TracePlan, TraceSetting, plan_trace
from testbed.workload.trace.records import Conversation, TraceRecords, settle
from testbed.workload.trace.sharegpt import read_sharegpt, turns_of

TRACES = Path(__file__).resolve().parents[2] / "fixtures" / "traces"
CASE = json.loads((TRACES / "T06_sharegpt_roles.expected.json").read_text())
ROLES = (TRACES / "T06_sharegpt_roles.json").read_text()


def spec(**changes: Any) -> Trace:
    arrival = {"process": "constant", "rate": 0.5}
    return Trace.model_validate({"file": "t", "format": "sharegpt", "timeout": "60s", "arrival": arrival} | changes)


def records(text: str = ROLES) -> TraceRecords:
    return settle(read_sharegpt(text, where="t.json"), where="t.json", sha256="ab", bad_rows="refuse")


def plan(trace: TraceRecords, **changes: Any) -> TracePlan:
    """Each message counts a token a character, and an answer is read at a tenth of a second a token."""
    setting = TraceSetting(
        "w", seed=7, tokens=tuple(range(500)), max_model_len=400, decode_s_per_token=0.1, count_tokens=len
    )
    return plan_trace(spec(**changes), trace, setting)


def talk(*messages: tuple[str, str]) -> dict[str, Any]:
    return {"id": "x", "conversations": [{"from": role, "value": text} for role, text in messages]}


def told(text: str) -> list[str]:
    return [f"{one.where}: {one.message}" for one in read_sharegpt(text, where="t").problems]


def test_roles_are_read_and_the_system_text_is_never_the_question() -> None:
    found = records().conversations
    assert len(found) == CASE["conversations"]
    assert found[1].messages == (("system", "be short"), ("user", "q"), ("assistant", "r"))
    assert sum(role == "user" for one in found for role, _ in one.messages) == CASE["counts"]["human_turns_total"]


def test_a_later_turn_carries_the_earlier_ones_and_a_question_without_an_answer_is_left_out_and_counted() -> None:
    made = plan(records())
    # a: q1 is 2 tokens; q1 r1 q2 are 6. b: "be short" and q are 9. c has no answer.
    assert [(one.session, one.turn, len(one.prompt), one.max_tokens) for one in made.workload.requests] == [
        (1, 1, 2, 2), (1, 2, 6, 2), (2, 1, 9, 1)
    ]
    first, second, third = (one.prompt for one in made.workload.requests)
    assert second[:2] == first
    assert third[0] != first[0]
    assert [one.hit_tokens for one in made.workload.requests] == [0, 2, 0]
    assert "  1 questions without an answer left out (no default_output)" in made.lines


def test_the_turns_of_a_conversation_follow_by_thinking_and_reading() -> None:
    made = plan(records(), think="1s")
    # sessions at 0 and 2 s; the second turn 1 s + 2 tokens x 0.1 s after the first
    assert [one.scheduled_at_s for one in made.workload.requests] == pytest.approx([0.0, 1.2, 2.0])


def test_without_later_turns_the_loss_is_told() -> None:
    made = plan(records(), turns="first")
    assert len(made.workload.requests) == CASE["counts"]["usable_single_turn_strict"]
    assert "  1 later turn left out (turns: first)" in made.lines


def test_a_default_length_answers_what_has_no_answer() -> None:
    made = plan(records(), turns="first", default_output=16)
    assert len(made.workload.requests) == CASE["counts"]["usable_with_default_length"]
    assert [one.max_tokens for one in made.workload.requests] == [2, 1, 16]


def test_a_file_without_any_answer_is_refused() -> None:
    with pytest.raises(SpecError, match="give default_output"):
        plan(records(json.dumps([talk(("human", "q"))])))


def test_conversations_that_begin_alike_share_what_they_say_alike() -> None:
    talks = [talk(("system", "be short"), ("human", f"question {number}"), ("gpt", "r")) for number in range(2)]
    made = plan(records(json.dumps(talks)))
    assert [one.hit_tokens for one in made.workload.requests] == [0, 8]


def test_an_empty_message_counts_a_token() -> None:
    found = records(json.dumps([talk(("human", ""), ("gpt", ""))])).conversations
    [row] = turns_of(found, spec(), name="w", seed=7, count=len, decode_s_per_token=0.0).rows
    assert (row.input_tokens, row.output_tokens) == (1, 1)


def test_a_limit_counts_conversations() -> None:
    assert [one.session for one in plan(records(), limit=1).workload.requests] == [1, 1]


def test_conversations_that_never_begin_are_counted() -> None:
    # from 2 a second to none within 2 s: 2 arrivals are expected, and a gamma of high shape is as good as even
    ramp = {"process": "ramp", "from": 2, "to": 0, "burstiness": 1e6}
    talks = tuple(Conversation(number, (("user", "q"), ("assistant", "r"))) for number in range(1, 6))
    turns = turns_of(
        talks, spec(arrival=ramp, window={"to": "2s"}), name="w", seed=7, count=len, decode_s_per_token=0.0
    )
    assert len(turns.rows) + turns.never_begun == 5
    assert turns.never_begun in (3, 4)


def test_openais_names_of_the_keys_and_an_odd_order_of_roles_are_read() -> None:
    text = json.dumps([{"messages": [{"role": "assistant", "content": "hi"}, {"role": "user", "content": "q"}]}])
    made = plan(records(text), default_output=4)
    assert [(len(one.prompt), one.max_tokens) for one in made.workload.requests] == [(3, 4)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[{"conversations": [}]', "t:1: is not JSON"),
        ('{"conversations": []}', "t:1: is not a list of conversations"),
        ('[{"id": "x"}]', "t: conversation 1: has no list of conversations"),
        (json.dumps([talk(("human", "q")), talk(("robot", "q"))]), 't: conversation 2: has a message from "robot"'),
        ('[{"conversations": [{"from": "human"}]}]', "t: conversation 1: has a message without from and value"),
        ('[{"conversations": [{"from": ["human"], "value": "q"}]}]', "t: conversation 1: has a message without from"),
        ('[{"conversations": []}]', "t: conversation 1: has no question of a user"),
        ("[" * 100_000, "t: is nested too deeply"),
    ],
)
def test_what_is_no_conversation_is_told(text: str, said: str) -> None:
    assert told(text)[-1].startswith(said)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.sampled_from(["conversations", "messages", "from", "value", "role"]), inner, max_size=3),
    max_leaves=12,
)


@settings(max_examples=60, deadline=None)
@given(items=st.lists(JSON, max_size=5))
def test_every_item_is_a_conversation_or_a_problem(items: list[Any]) -> None:
    reading = read_sharegpt(json.dumps(items), where="t")
    assert len(reading.conversations) + len(reading.problems) == len(items)


MESSAGES = st.lists(st.tuples(st.sampled_from(["human", "gpt", "system"]), st.text(max_size=6)), min_size=1, max_size=8)


@settings(max_examples=30, deadline=None)
@given(talks=st.lists(MESSAGES.filter(lambda talk: any(role == "human" for role, _ in talk)), min_size=1, max_size=5))
def test_no_question_is_lost_without_a_word(talks: list[list[tuple[str, str]]]) -> None:
    found = records(json.dumps([talk(*messages) for messages in talks])).conversations
    turns = turns_of(found, spec(), name="w", seed=7, count=len, decode_s_per_token=0.0)
    first = turns_of(found, spec(turns="first"), name="w", seed=7, count=len, decode_s_per_token=0.0)
    questions = sum(role == "human" for messages in talks for role, _ in messages)
    assert len(turns.rows) + turns.without_answer == questions
    assert len(first.rows) + first.later_turns + first.without_answer == questions
