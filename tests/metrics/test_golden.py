"""Comparison with the golden answer."""

import pytest

from testbed.journal.manifest import GoldenAnswer
from testbed.metrics.golden import compare

GOLDEN = GoldenAnswer(
    token_ids=[5, 6, 7, 8], second_ids=[1, 2, 3, 4], gaps_nats=[1.0, 0.04, 0.2, 1.0], finish_reason="length",
)


@pytest.mark.parametrize(
    ("answer", "kind", "position"),
    [
        ([5, 6, 7, 8], "right", None),
        ([5, 2, 9, 9], "near_tie", 1),  # golden's second, 0.04 nats behind, and 0.05 are allowed
        ([5, 9, 7, 8], "wrong", 1),  # a near tie of golden's, but not with this token
        ([5, 6, 3, 8], "wrong", 2),  # golden's second, but 0.2 nats behind
        ([5, 2], "near_tie", 1),
        ([5, 6, 7], "wrong", 3),  # ended early: no token that could be the second
        ([5, 6, 7, 8, 9], "wrong", 4),
        ([], "wrong", 0),
    ],
)
def test_only_the_first_difference_decides(answer: list[int], kind: str, position: int | None) -> None:
    found = compare(answer, GOLDEN, 0.05)
    assert (found.kind, found.position) == (kind, position)


def test_near_ties_count_as_right_and_wrong_ones_do_not() -> None:
    assert compare([5, 2], GOLDEN, 0.05).right
    assert not compare([5, 9], GOLDEN, 0.05).right


def test_a_wrong_answer_names_the_token() -> None:
    assert str(compare([5, 9], GOLDEN, 0.05)) == (
        "wrong at output token 1: id 9 instead of id 6, golden's gap there is 0.04 nats"
    )
