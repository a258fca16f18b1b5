"""What a class may say beside its lengths: its share, who asks, who waits, who leaves; and plans by number."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.workload.hits import with_hits
from testbed.workload.in_words import closed_loop_classes, loop_text
from testbed.workload.request import PlannedRequest
from testbed.workload.starts import class_picks
from testbed.workload.streams import cell_seed, stream
from tests.workload.corpus import planned, scale_of, sharing, text_class

CHAT = {"turns": {"count": 3, "release": "after_answer"}, "think": "2s"}


def by_session(requests: tuple[PlannedRequest, ...]) -> dict[int, list[PlannedRequest]]:
    found: dict[int, list[PlannedRequest]] = {}
    for one in requests:
        assert one.session is not None
        found.setdefault(one.session, []).append(one)
    return found


def earlier_turn(one: PlannedRequest) -> int:
    assert one.turn is not None
    return one.turn - 1


def test_classes_divide_one_arrival_by_their_shares() -> None:
    made = planned(
        {"long": sharing(share=0.25), "short": sharing(share=0.75)}, arrival={"process": "constant", "rate": 10},
    )
    # 600 sessions, one each 0.1 s, whoever's it is; a quarter is 150, deviation sqrt(600 x 0.25 x 0.75) = 10.6
    assert [one.scheduled_at_s for one in made.requests] == pytest.approx([number / 10 for number in range(600)])
    counts = Counter(one.traffic_class for one in made.requests)
    assert counts["long"] == pytest.approx(150, abs=4 * 10.6)
    assert counts.total() == 600


def test_a_class_alone_has_the_whole_arrival() -> None:
    made = planned({"text": sharing()}, arrival={"process": "constant", "rate": 1})
    assert len(made.requests) == 60


def test_another_share_leaves_the_prompts_of_a_class_as_they_were() -> None:
    arrival = {"process": "poisson", "rate": 2}
    even = planned({"a": sharing(share=0.5), "b": sharing(share=0.5)}, arrival=arrival)
    odd = planned({"a": sharing(share=0.2), "b": sharing(share=0.8)}, arrival=arrival)
    prompts = [[one.prompt for one in made.requests if one.traffic_class == "a"] for made in (even, odd)]
    assert len(prompts[1]) > 3
    assert prompts[0][: len(prompts[1])] == prompts[1]


@settings(max_examples=20)
@given(shares=st.lists(st.floats(0.05, 1.0), min_size=1, max_size=4), seed=st.integers(0, 2**32))
def test_sessions_are_numbered_class_by_class_without_gaps(shares: list[float], seed: int) -> None:
    named = {f"c{number}": share / sum(shares) for number, share in enumerate(shares)}
    picks = class_picks(named, stream(seed, "shares"))
    seen: Counter[str] = Counter()
    for name, number in (next(picks) for _ in range(40)):
        assert number == seen[name]
        seen[name] += 1


def test_a_plan_of_so_many_requests_has_so_many_and_ends_when_the_next_one_is_due() -> None:
    made = planned({"text": text_class()}, requests=40, scale=scale_of(20.0))
    longer = planned({"text": text_class()}, requests=41, scale=scale_of(20.0))
    assert len(made.requests) == 40
    assert longer.requests[:40] == made.requests
    assert made.duration_s == longer.requests[40].scheduled_at_s


def test_so_many_requests_at_a_constant_rate_take_so_many_gaps() -> None:
    # 40 at 2 a second, the first at 0: the next one would be due at 20 s
    constant = text_class(arrival={"process": "constant", "rate": 2})
    assert planned({"text": constant}, requests=40, scale=scale_of(20.0)).duration_s == pytest.approx(20.0)


def test_turns_after_the_last_wanted_request_are_cut_and_counted() -> None:
    # sessions at 0, 2, 4 ... with turns 2.5 s apart: 0, 2, 2.5, 4 are the first four; of the three sessions begun,
    # 9 - 4 turns lie beyond
    chat = text_class(arrival={"process": "constant", "rate": 0.5}, turns=3, think="2s")
    made = planned({"chat": chat}, requests=4, scale=scale_of(3.0))
    assert [one.scheduled_at_s for one in made.requests] == [0.0, 2.0, 2.5, 4.0]
    assert made.duration_s == 4.5
    assert made.cut.too_late == 5


def test_turns_may_wait_for_answers_and_the_plan_says_that_they_do() -> None:
    made = planned({"chat": text_class(**CHAT), "text": text_class()})
    for turns in by_session(tuple(one for one in made.requests if one.session is not None)).values():
        assert [turn.turn for turn in turns] == list(range(1, len(turns) + 1))
        assert turns[0].after is None
        assert [turn.after for turn in turns[1:]] == [turn.index for turn in turns[:-1]]
        assert {turn.think_s for turn in turns[1:]} <= {2.0}
    waiting = sum(one.after is not None for one in made.requests)
    assert closed_loop_classes(made.requests) == ("chat",)
    assert loop_text(made.requests) == (
        f"closed-loop: {waiting} of {len(made.requests)} requests wait for the answer to another one (chat)"
    )


def test_waiting_for_answers_changes_nothing_else() -> None:
    waits = planned({"chat": text_class(**CHAT)}).requests
    goes_on = planned({"chat": text_class(turns=3, think="2s")}).requests
    assert tuple(replace(one, after=None, think_s=0.0) for one in waits) == goes_on
    assert loop_text(goes_on).startswith("open-loop")


def test_isolated_tenants_share_nothing_and_others_do() -> None:
    tenants = {"count": 3, "sharing": "isolated"}
    system = {"system_prompt": {"tokens": 16}}
    isolated = planned({"text": text_class(tenants=tenants, **system)}).requests
    shared = planned({"text": text_class(tenants=tenants | {"sharing": "shared"}, **system)}).requests
    assert {one.tenant for one in isolated} == {"tenant-0", "tenant-1", "tenant-2"}
    assert [one.cache_salt for one in isolated] == [one.tenant for one in isolated]
    assert {one.cache_salt for one in shared} == {None}
    assert [one.tenant for one in shared] == [one.tenant for one in isolated]
    # the first request of a tenant finds nothing, and all others the system prompt; texts may begin alike by chance
    assert sum(one.hit_tokens is not None and one.hit_tokens < 16 for one in isolated) == 3
    assert sum(one.hit_tokens is not None and one.hit_tokens < 16 for one in shared) == 1


def test_tenants_priority_and_leaving_change_no_prompt_and_no_time() -> None:
    plain = planned({"text": text_class()}).requests
    dressed = planned({
        "text": text_class(
            tenants={"count": 2, "sharing": "shared"}, priority=3, leaves={"share": 0.3, "after_tokens": {"fixed": 2}}
        )
    }).requests
    bare = (replace(one, tenant=None, priority=0, leaves_after_tokens=None) for one in dressed)
    assert tuple(bare) == plain
    assert {one.priority for one in dressed} == {3}


def test_the_fill_asks_each_document_once_for_each_isolated_tenant() -> None:
    documents = {"count": 2, "tokens": {"fixed": 50}, "popularity": {"zipf": 0}}
    docs = text_class(documents=documents, tenants={"count": 2, "sharing": "isolated"})
    made = planned({"docs": docs}, filled=True)
    assert [(one.document, one.cache_salt) for one in made.fill] == [
        (0, "tenant-0"), (1, "tenant-0"), (0, "tenant-1"), (1, "tenant-1"),
    ]
    # so every request finds its document, whoever asks
    assert all(one.hit_tokens is not None and one.hit_tokens >= 50 for one in made.requests)


def test_without_a_fill_the_first_question_about_a_document_finds_nothing() -> None:
    docs = text_class(documents={"count": 1, "tokens": {"fixed": 50}, "popularity": {"zipf": 0}})
    hits = [one.hit_tokens for one in planned({"docs": docs}).requests]
    assert hits[0] == 0
    assert all(hit is not None and hit >= 50 for hit in hits[1:])


def test_a_share_of_the_users_leaves_mid_stream_and_ends_the_session() -> None:
    chat = text_class(turns=3, think="1s", output={"fixed": 8}, leaves={"share": 0.2, "after_tokens": {"fixed": 3}})
    made = planned({"chat": chat}, scale=scale_of(300.0))
    left = [one for one in made.requests if one.leaves_after_tokens is not None]
    assert {one.leaves_after_tokens for one in left} == {3}
    # 0.2 of some hundred requests; deviation sqrt(n x 0.2 x 0.8)
    count = len(made.requests)
    assert len(left) == pytest.approx(0.2 * count, abs=4 * (count * 0.16) ** 0.5)
    last = {turns[-1].index for turns in by_session(made.requests).values()}
    assert {one.index for one in left} <= last


def test_who_would_leave_after_the_end_of_the_answer_stays() -> None:
    stays = text_class(leaves={"share": 1.0, "after_tokens": {"fixed": 5}})
    assert {one.leaves_after_tokens for one in planned({"text": stays}).requests} == {None}


def test_a_closed_loop_keeps_so_many_in_flight() -> None:
    made = planned({"text": sharing()}, arrival={"process": "closed", "concurrency": 3}, requests=8)
    assert [one.after for one in made.requests] == [None, None, None, 0, 1, 2, 3, 4]
    assert {one.scheduled_at_s for one in made.requests} == {0.0}
    assert {one.think_s for one in made.requests} == {0.0}
    assert len({one.prompt for one in made.requests}) == 8


def test_users_of_a_closed_loop_finish_a_chat_before_they_begin_the_next_one() -> None:
    made = planned(
        {"chat": sharing(turns=2, think="4s")}, arrival={"process": "closed", "concurrency": 2}, requests=8
    )
    # user 0 has sessions 0 and 2, user 1 has 1 and 3; each sends both turns, thinking 4 s between
    assert [(one.session, one.turn) for one in made.requests] == [
        (0, 1), (1, 1), (0, 2), (1, 2), (2, 1), (3, 1), (2, 2), (3, 2),
    ]
    assert [one.think_s for one in made.requests] == [0.0, 0.0, 4.0, 4.0, 0.0, 0.0, 4.0, 4.0]


def test_four_workers_with_one_seed_send_forty_different_prompts_and_not_in_lockstep() -> None:
    # The schedule is one list: a worker sends its part of it, so their number has no part in what is sent.
    made = planned({"text": text_class()}, requests=40, scale=scale_of(20.0))
    workers = [made.requests[worker::4] for worker in range(4)]
    assert len({one.prompt for part in workers for one in part}) == 40
    gaps = {
        round(late.scheduled_at_s - early.scheduled_at_s, 9)
        for part in workers for early, late in pairwise(part)
    }
    assert len(gaps) == 4 * 9
    again = planned({"text": text_class()}, requests=40, scale=scale_of(20.0))
    assert tuple(sorted((one for part in workers for one in part), key=lambda one: one.index)) == again.requests


def test_two_cells_of_one_run_ask_different_prompts_and_each_the_same_again() -> None:
    fresh = {"text": text_class(distinct=True, input={"fixed": 40})}
    slow, fast = (planned(fresh, seed=cell_seed(7, cell)).requests for cell in ("rate=1", "rate=2"))
    assert slow == planned(fresh, seed=cell_seed(7, "rate=1")).requests
    assert {one.prompt for one in slow}.isdisjoint(one.prompt for one in fast)
    # even an endless cache that has seen the first cell finds less than a block in the second
    assert max(one.hit_tokens for one in with_hits(fast, before=slow) if one.hit_tokens is not None) < 16


def test_distinct_texts_share_nothing_though_many_are_cut_from_one_corpus() -> None:
    # 600 texts from 5000 places: without `distinct`, 600^2 / 2 / 5000 = 36 pairs would begin at the same place
    def hits(distinct: bool) -> list[int | None]:
        text = text_class(distinct=distinct, input={"fixed": 40}, turns=2)
        made = planned({"text": text}, scale=scale_of(300.0)).requests
        assert {len(one.prompt) for one in made} == {40, 40 + 5 + 40}
        return [one.hit_tokens for one in made if one.turn == 1]

    assert set(hits(distinct=True)) == {0}
    assert sum(hit == 40 for hit in hits(distinct=False)) == pytest.approx(36, abs=4 * 6)


def test_more_distinct_texts_than_the_corpus_has_places_share_their_head_alone() -> None:
    text = text_class(distinct=True, input={"fixed": 40}, arrival={"process": "constant", "rate": 5})
    made = planned({"text": text}, tokens=tuple(range(200))).requests
    # 300 texts; of the 200 places the last seven have no room for a head of 8 and stand for the one before them
    assert len(made) == 300
    assert {one.hit_tokens for one in made[200:]} == {8}
    assert Counter(one.hit_tokens for one in made[:200]) == {0: 193, 8: 7}


@settings(max_examples=12)
@given(
    seed=st.integers(0, 2**32), turns=st.integers(1, 3), share=st.floats(0.1, 1.0), wanted=st.integers(1, 30),
    release=st.sampled_from(("planned", "after_answer")), rate=st.floats(0.2, 5.0),
)
def test_whatever_a_class_says_times_rise_and_requests_follow_earlier_ones_of_their_session(
    seed: int, turns: int, share: float, wanted: int, release: str, rate: float
) -> None:
    made = planned(
        {
            "chat": sharing(
                share=0.5, turns={"count": turns, "release": release}, think="1s",
                leaves={"share": share, "after_tokens": {"uniform": [1, 9]}},
            ),
            "text": sharing(share=0.5),
        },
        arrival={"process": "gamma", "rate": rate, "burstiness": 0.5}, requests=wanted, seed=seed,
        scale=scale_of(wanted / rate),
    )
    requests = made.requests
    assert [one.index for one in requests] == list(range(wanted))
    assert [one.scheduled_at_s for one in requests] == sorted(one.scheduled_at_s for one in requests)
    for one in requests:
        if one.after is not None:
            earlier = requests[one.after]
            assert (earlier.session, earlier.turn) == (one.session, earlier_turn(one))
            assert one.after < one.index
        assert one.leaves_after_tokens is None or 1 <= one.leaves_after_tokens < one.max_tokens
