"""What the caches are expected to do, by hand on blocks of 4 tokens."""

from dataclasses import replace

from testbed.plan.expectation import expect
from testbed.workload.request import PlannedRequest


def ask(index: int, prompt: list[int], measured: bool = True) -> PlannedRequest:
    return PlannedRequest(index, "doc", float(index), tuple(prompt), 1, "natural", 10.0, measured)


A = [1, 2, 3, 4, 5, 6, 7, 8, 9]
B = [21, 22, 23, 24, 25, 26, 27, 28, 29]


def test_a_repeat_hits_the_engine_while_it_holds_the_blocks() -> None:
    # A has two whole blocks: 8 tokens local the second time, 1 computed; 9 computed the first time
    found = expect([ask(0, A), ask(1, A)], block_size=4, num_blocks=4, with_tier=True)
    assert (found.local_tokens, found.loaded_tokens, found.computed_tokens) == (8, 0, 10)


def test_a_repeat_loads_once_other_blocks_have_pushed_it_out() -> None:
    # room for two blocks: B pushes A out, so A's return loads 8 and computes 1
    found = expect([ask(0, A), ask(1, B), ask(2, A)], block_size=4, num_blocks=2, with_tier=True)
    assert (found.local_tokens, found.loaded_tokens, found.computed_tokens) == (0, 8, 19)
    assert found.loads_by_class == {"doc": 1}


def test_without_a_tier_it_is_computed_again() -> None:
    found = expect([ask(0, A), ask(1, B), ask(2, A)], block_size=4, num_blocks=2, with_tier=False)
    assert (found.loaded_tokens, found.computed_tokens) == (0, 27)


def test_what_is_filled_before_is_not_counted_but_held() -> None:
    found = expect([ask(0, A, measured=False), ask(1, A)], block_size=4, num_blocks=4, with_tier=True)
    assert (found.local_tokens, found.computed_tokens) == (8, 1)


def test_a_full_hit_still_computes_its_last_block() -> None:
    # 8 tokens are two whole blocks; one may be reused, since the last token must be computed
    found = expect([ask(0, A[:8]), ask(1, A[:8])], block_size=4, num_blocks=4, with_tier=True)
    assert (found.local_tokens, found.computed_tokens) == (4, 12)


def test_another_beginning_shares_nothing() -> None:
    found = expect([ask(0, A), ask(1, [9, *A[1:]])], block_size=4, num_blocks=4, with_tier=True)
    assert (found.local_tokens, found.loaded_tokens) == (0, 0)


def test_requests_under_different_salts_share_nothing() -> None:
    salted = [replace(ask(number, A), cache_salt=salt) for number, salt in enumerate(("a", "b", "a"))]
    found = expect(salted, block_size=4, num_blocks=4, with_tier=True)
    # the third finds what the first left: 8 of its 9 tokens
    assert (found.local_tokens + found.loaded_tokens, found.computed_tokens) == (8, 19)
