"""What an endless cache finds of each prompt: against the plain definition, and fast."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.workload.hits import earlier_prefixes, with_hits
from testbed.workload.request import PlannedRequest

# Few and large tokens, so that prompts share prefixes and tokens share bytes.
PROMPTS = st.lists(st.lists(st.sampled_from((0, 1, 256, 257, 100_000)), max_size=6), max_size=9)


def request(index: int, prompt: tuple[int, ...], salt: str | None = None) -> PlannedRequest:
    return PlannedRequest(
        index=index, traffic_class="chat", scheduled_at_s=float(index), prompt=prompt, max_tokens=4, stop="forced",
        timeout_s=9.0, cache_salt=salt,
    )


def shared(one: list[int], other: list[int]) -> int:
    for place, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return place
    return min(len(one), len(other))


@settings(max_examples=60)
@given(PROMPTS)
def test_a_hit_is_the_longest_prefix_that_any_earlier_prompt_has_too(prompts: list[list[int]]) -> None:
    wanted = [max((shared(one, other) for other in prompts[:place]), default=0) for place, one in enumerate(prompts)]
    assert earlier_prefixes(prompts) == wanted


def test_hits_by_hand() -> None:
    prompts = [(1, 2, 3, 4), (1, 2, 9), (5,), (1, 2, 9), (1, 2, 9, 9), (5, 5)]
    found = with_hits([request(index, prompt) for index, prompt in enumerate(prompts)])
    assert [one.hit_tokens for one in found] == [0, 2, 0, 3, 3, 1]
    assert [replace(one, hit_tokens=None) for one in found] == [request(i, prompt) for i, prompt in enumerate(prompts)]


def test_what_was_asked_before_is_found_but_not_what_comes_later() -> None:
    fill = [request(0, (1, 2, 3))]
    found = with_hits([request(0, (1, 2, 7)), request(1, (1, 2, 7, 8))], before=fill)
    assert [one.hit_tokens for one in found] == [2, 3]


def test_prompts_under_different_salts_share_nothing() -> None:
    salts = [None, "a", "b", "a", None]
    found = with_hits([request(index, (1, 2, 3), salt) for index, salt in enumerate(salts)])
    assert [one.hit_tokens for one in found] == [0, 0, 0, 3, 3]
