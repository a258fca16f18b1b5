"""Equal, near-tie or wrong: the rule at the first differing token."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.engines.agreement import TIE_GAP_NATS, compare
from testbed.journal.manifest import GoldenAnswer

# At position 2 the runner-up 40 lies 0.05 nats behind the right token 30; elsewhere the gap is 2.
GOLDEN = GoldenAnswer(
    token_ids=[10, 20, 30, 50], second_ids=[11, 21, 40, 51], gaps_nats=[2.0, 2.0, 0.05, 2.0], finish_reason="length",
)


def test_the_same_tokens_are_equal() -> None:
    assert compare(GOLDEN, [10, 20, 30, 50], 0.05).kind == "equal"


def test_the_runner_up_at_the_limit_is_a_near_tie_whatever_follows() -> None:
    agreement = compare(GOLDEN, [10, 20, 40, 99], 0.05)
    assert (agreement.kind, agreement.first_difference) == ("near_tie", 2)


def test_the_runner_up_beyond_the_limit_is_wrong() -> None:
    assert compare(GOLDEN, [10, 20, 40, 99], 0.049).kind == "wrong"


def test_a_third_token_is_wrong_however_small_the_gap() -> None:
    agreement = compare(GOLDEN, [10, 20, 41, 50], 0.3)
    assert agreement.kind == "wrong"
    assert agreement.detail == "token 2 is 41, not 30; golden's second is 40, 0.050 nats behind"


def test_an_early_difference_is_not_excused_by_a_later_near_tie() -> None:
    assert compare(GOLDEN, [11, 20, 40, 50], 0.3).first_difference == 0
    assert compare(GOLDEN, [11, 20, 40, 50], 0.3).kind == "wrong"


@pytest.mark.parametrize("answer", [[], [10, 20], [10, 20, 30, 50, 60]])
def test_an_answer_of_another_length_is_wrong(answer: list[int]) -> None:
    assert compare(GOLDEN, answer, 0.3).kind == "wrong"


def test_sixteen_bits_have_a_wider_limit_than_float32() -> None:
    assert dict(TIE_GAP_NATS) == {"float32": 0.05, "float16": 0.3, "bfloat16": 0.3}


@given(
    st.lists(st.tuples(st.integers(0, 9), st.floats(0, 1)), min_size=1, max_size=20), st.data(),
)
def test_one_changed_token_is_found_where_it_is(steps: list[tuple[int, float]], data: st.DataObject) -> None:
    tokens = [token for token, _ in steps]
    gaps = [gap for _, gap in steps]
    golden = GoldenAnswer(
        token_ids=tokens, second_ids=[token + 100 for token in tokens], gaps_nats=gaps, finish_reason="length",
    )
    assert compare(golden, tokens, 0.3).kind == "equal"
    at = data.draw(st.integers(0, len(tokens) - 1))
    other = data.draw(st.sampled_from([tokens[at] + 100, tokens[at] + 200]))
    agreement = compare(golden, [*tokens[:at], other, *tokens[at + 1:]], 0.3)
    assert agreement.first_difference == at
    near = other == tokens[at] + 100 and gaps[at] <= 0.3
    assert agreement.kind == ("near_tie" if near else "wrong")
