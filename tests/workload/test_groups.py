"""Prefix groups: what each request of a round can hit is known to the token, and follows from the prompts alone."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.errors import SpecError
from testbed.spec.workload import GROUPS
from testbed.workload.mixed import WorkloadPlan
from testbed.workload.request import PlannedRequest
from testbed.workload.texts import fresh_places
from tests.workload.corpus import TOKENS, planned, scale_of, text_class


def rounds(**changes: Any) -> dict[str, Any]:
    """Rounds with prefixes of 100 to 200 tokens and questions of 10, each after the answer to the one before."""
    groups = {"prefix": {"uniform": [100, 200]}, "change_at": 16, **changes.pop("prefix_groups", {})}
    return text_class(arrival={"process": "poisson", "rate": 0.2}, prefix_groups=groups, think="1s", **changes)


def by_round(made: WorkloadPlan) -> list[dict[str, PlannedRequest]]:
    """The whole rounds of a plan, each by its groups."""
    found: dict[int, dict[str, PlannedRequest]] = {}
    for one in made.requests:
        if one.traffic_class.startswith("rounds."):
            assert one.session is not None
            found.setdefault(one.session, {})[one.traffic_class.removeprefix("rounds.")] = one
    return [each for each in found.values() if len(each) == 4]


def test_each_group_hits_what_it_was_built_to_hit() -> None:
    for each in by_round(planned({"rounds": rounds()}, scale=scale_of(100.0))):
        hits = {group: one.hit_tokens for group, one in each.items()}
        prefix = len(each["cold"].prompt) - 10
        # a fresh prefix begins with a token that no other one begins with; the changed token stands at 16
        assert hits == {"cold": 0, "hot": prefix, "early_change": 16, "unrelated": 0}


def test_a_system_prompt_is_what_all_of_them_share() -> None:
    made = planned({"rounds": rounds(system_prompt={"tokens": 30})}, scale=scale_of(100.0))
    first, *others = by_round(made)
    assert first["cold"].hit_tokens == 0
    for each in others:
        hits = [each[group].hit_tokens for group in GROUPS]
        assert hits == [30, len(each["cold"].prompt) - 10, 30 + 16, 30]


def test_an_early_change_is_one_token_of_the_cold_prompt() -> None:
    for each in by_round(planned({"rounds": rounds()}, scale=scale_of(100.0))):
        pairs = list(zip(each["cold"].prompt, each["early_change"].prompt, strict=True))
        assert [place for place, (one, other) in enumerate(pairs) if one != other] == [16]
        assert len(each["unrelated"].prompt) == len(each["cold"].prompt) == len(each["hot"].prompt)


def test_a_change_beyond_the_prefix_is_at_its_last_token() -> None:
    made = planned({"rounds": rounds(prefix_groups={"prefix": {"fixed": 8}})}, scale=scale_of(100.0))
    assert {each["early_change"].hit_tokens for each in by_round(made)} == {7}


def test_requests_of_a_round_are_asked_in_order_each_after_the_one_before() -> None:
    for each in by_round(planned({"rounds": rounds()}, scale=scale_of(100.0))):
        in_order = [each[group] for group in GROUPS]
        assert [one.turn for one in in_order] == [1, 2, 3, 4]
        assert [one.after for one in in_order] == [None, *(one.index for one in in_order[:-1])]
        assert [one.think_s for one in in_order] == [0.0, 1.0, 1.0, 1.0]


def test_rounds_may_go_by_the_schedule_alone() -> None:
    made = planned({"rounds": rounds(prefix_groups={"release": "planned"})})
    assert {one.after for one in made.requests} == {None}


def test_rounds_without_a_pause_keep_their_order() -> None:
    # all four are due at one time when nothing is read and nobody thinks
    quick = rounds() | {"think": "0s"}
    made = planned({"rounds": quick}, scale=scale_of(60.0, decode_s_per_token=0.0))
    groups = [one.traffic_class.removeprefix("rounds.") for one in made.requests]
    assert groups == list(GROUPS) * (len(groups) // 4)


def test_prefixes_are_scaled_and_cut_like_documents() -> None:
    halved = planned({"rounds": rounds()}, scale=scale_of(100.0, length_ratio=0.5))
    assert all(50 <= len(each["cold"].prompt) - 10 <= 100 for each in by_round(halved))
    # room beside question and answer: 95 - 10 - 5 = 80
    cut = planned({"rounds": rounds()}, scale=scale_of(100.0), max_model_len=95)
    assert {len(one.prompt) for one in cut.requests} == {90}
    assert cut.cut.documents >= len(by_round(cut)) > 0


def test_the_plan_goes_on_until_there_are_enough_rounds() -> None:
    made = planned({"rounds": rounds()}, scale=scale_of(5.0, min_documents=22))
    assert len(by_round(made)) >= 22


def test_other_classes_draw_the_same_beside_prefix_groups() -> None:
    alone = planned({"text": text_class()}).requests
    beside = planned({"rounds": rounds(), "text": text_class()}).requests
    assert [one.prompt for one in beside if one.traffic_class == "text"] == [one.prompt for one in alone]


def test_a_corpus_that_is_too_short_is_refused() -> None:
    with pytest.raises(SpecError, match="too short for a text of"):
        planned({"rounds": rounds(prefix_groups={"prefix": {"fixed": 80}})}, tokens=tuple(range(60)))
    with pytest.raises(SpecError, match="has one token only"):
        planned({"rounds": rounds()}, tokens=(4,) * 500)
    with pytest.raises(SpecError, match="too short for 3 rounds"):
        planned({"rounds": rounds(prefix_groups={"prefix": {"fixed": 4}}, input={"fixed": 1})}, tokens=(1, 2, 3, 4))


def test_fresh_places_begin_with_different_tokens_as_long_as_there_are_some() -> None:
    places = fresh_places((7, 7, 8, 9, 8, 7), np.random.default_rng(1))
    assert sorted(places) == [0, 1, 2, 3, 4, 5]
    assert {(7, 7, 8, 9, 8, 7)[place] for place in places[:3]} == {7, 8, 9}


@settings(max_examples=10)
@given(seed=st.integers(0, 2**32), change_at=st.integers(1, 60), repeats=st.integers(1, 3))
def test_hits_of_a_round_are_as_built_whatever_the_seed(seed: int, change_at: int, repeats: int) -> None:
    # In a corpus that repeats itself fresh texts still share nothing, for they begin with different tokens.
    made = planned(
        {"rounds": rounds(prefix_groups={"prefix": {"fixed": 50}, "change_at": change_at})}, seed=seed,
        tokens=TOKENS[:400] * repeats,
    )
    for each in by_round(made):
        hits = [each[group].hit_tokens for group in GROUPS]
        assert hits == [0, 50, min(change_at, 49), 0]
