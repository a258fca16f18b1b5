"""A run's own journal is a trace: the same lengths, times and shared prefixes come out of it again."""

from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.spec.trace import Trace
from testbed.workload.hits import with_hits
from testbed.workload.request import PlannedRequest
from testbed.workload.trace.journal_replay import replay
from testbed.workload.trace.plan import TracePlan, TraceSetting, plan_trace
from testbed.workload.trace.records import settle


@dataclass(frozen=True)
class Event:
    """What stands in a `request_planned` event."""

    request_id: str
    scheduled_at_s: float
    prompt_tokens: int
    prompt_key: str
    hit_tokens: int | None = None
    traffic_class: str = "chat"
    max_tokens: int = 8
    stop: str = "natural"
    measured: bool = True
    document: int | None = None
    session: int | None = None
    turn: int | None = None


def replayed(*events: Event, due_s: dict[str, float] | None = None, **changes: Any) -> TracePlan:
    spec = Trace.model_validate({"file": "r", "format": "journal", "timeout": "60s"} | changes)
    reading = replay(events, {} if due_s is None else due_s)
    records = settle(reading, where="r", sha256="ab", bad_rows="refuse")
    return plan_trace(spec, records, TraceSetting("w", seed=7, tokens=tuple(range(900)), max_model_len=4000))


def hits(plan: TracePlan) -> list[int | None]:
    return [one.hit_tokens for one in plan.workload.requests]


def test_lengths_times_classes_and_stops_are_the_runs() -> None:
    plan = replayed(
        Event("b", 2.5, 30, "k2", traffic_class="doc", stop="forced"), Event("a", 0.5, 20, "k1"),
        Event("f", 0.0, 9, "k0", measured=False),
    )
    # counted from the first of them, at 0.5 s
    assert [(one.scheduled_at_s, len(one.prompt), one.max_tokens, one.traffic_class, one.stop)
            for one in plan.workload.requests] == [(0.0, 20, 8, "chat", "natural"), (2.0, 30, 8, "doc", "forced")]
    assert {one.stop for one in replayed(Event("a", 0, 20, "k1"), stop="forced").workload.requests} == {"forced"}


def test_a_turn_that_waited_for_an_answer_is_due_when_it_was_due() -> None:
    plan = replayed(Event("a", 0.0, 20, "k1"), Event("b", 1.0, 30, "k2"), due_s={"a": 0.0, "b": 4.0})
    assert [one.scheduled_at_s for one in plan.workload.requests] == [0.0, 4.0]


def test_equal_prompts_are_equal_again() -> None:
    plan = replayed(Event("a", 0, 20, "k1"), Event("b", 1, 20, "k2"), Event("c", 2, 20, "k1"))
    assert hits(plan) == [0, 0, 20]


def test_a_turn_begins_with_the_turn_before_it() -> None:
    events = [
        Event(f"s{at}t{turn}", at + turn, 10 + 15 * turn, f"k{at}{turn}", session=at, turn=turn)
        for at in (0, 1) for turn in (1, 2, 3)
    ]
    plan = replayed(*events)
    # turns of 25, 40 and 55 tokens; sessions share nothing. In order of time: s0t1, then s0t2, s1t1, s0t3, s1t2, s1t3
    assert sorted(hits(plan), key=str) == [0, 0, 25, 25, 40, 40]


def test_a_document_and_a_system_prompt_are_as_long_as_the_hits_on_them_were() -> None:
    # a system prompt of 16 tokens, documents of 100 and 60 more; every question is new
    ends = {1: 116, 2: 76}
    events = [
        Event("a", 0, 120, "k1", 0, document=1), Event("b", 1, 80, "k2", 16, document=2),
        Event("c", 2, 122, "k3", ends[1], document=1), Event("d", 3, 82, "k4", ends[2], document=2),
        Event("e", 4, 122, "k3", 122, document=1),
    ]
    assert hits(replayed(*events)) == [0, 16, 116, 76, 122]


def test_without_known_hits_documents_share_nothing() -> None:
    assert hits(replayed(Event("a", 0, 120, "k1", document=1), Event("b", 1, 120, "k2", document=1))) == [0, 0]


SYSTEM = tuple(range(5))


def planned(kind: int, question: int, at: int) -> PlannedRequest:
    """One of two documents behind a common system prompt, and one of three questions."""
    prompt = (*SYSTEM, *(100 * (kind + 1) + place for place in range(20 + kind)), 900 + question, 950)
    return PlannedRequest(at, "doc", float(at), prompt, 8, "natural", 60.0, document=kind)


@settings(max_examples=30, deadline=None)
@given(asked=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2)), min_size=1, max_size=12))
def test_a_replay_of_documents_finds_as_much_as_the_run_did(asked: list[tuple[int, int]]) -> None:
    run = with_hits([planned(kind, question, at) for at, (kind, question) in enumerate(asked)])
    events = [
        Event(str(one.index), one.scheduled_at_s, len(one.prompt), one.prompt_key, one.hit_tokens, "doc",
              document=one.document)
        for one in run
    ]
    assert hits(replayed(*events)) == [one.hit_tokens for one in run]


def test_prompts_of_a_replay_share_what_is_planned() -> None:
    plan = replayed(Event("a", 0, 20, "k1", session=0, turn=1), Event("b", 1, 30, "k2", session=0, turn=2))
    first, second = (one.prompt for one in plan.workload.requests)
    assert sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False))) == 20
