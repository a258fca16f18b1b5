"""Deadlines without a timer for each: none is early, none is lost."""

from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.drive.deadlines import SLOT_NS, Deadlines


def test_a_deadline_is_seen_within_a_slot_after_it_and_never_before() -> None:
    deadlines = Deadlines(0)
    deadlines.add(1, 3 * SLOT_NS + 5)
    assert deadlines.passed(3 * SLOT_NS + 6) == []
    assert deadlines.passed(4 * SLOT_NS) == [1]
    assert deadlines.passed(9 * SLOT_NS) == []


def test_what_has_ended_is_not_late() -> None:
    deadlines = Deadlines(0)
    deadlines.add(1, 5)
    deadlines.add(2, 6)
    deadlines.drop(1, 5)
    deadlines.drop(7, 8)
    assert deadlines.passed(SLOT_NS) == [2]


@settings(max_examples=50)
@given(
    ends=st.dictionaries(st.integers(0, 50), st.integers(0, 10 * SLOT_NS), max_size=20),
    dropped=st.sets(st.integers(0, 50)), looks=st.lists(st.integers(0, 12 * SLOT_NS), max_size=10).map(sorted),
)
def test_each_deadline_is_seen_once_unless_it_was_dropped(
    ends: dict[int, int], dropped: set[int], looks: list[int]
) -> None:
    deadlines = Deadlines(0)
    for number, at_ns in ends.items():
        deadlines.add(number, at_ns)
    for number in dropped & set(ends):
        deadlines.drop(number, ends[number])
    seen = []
    for now_ns in [*looks, 12 * SLOT_NS]:
        late = deadlines.passed(now_ns)
        assert all(ends[number] < now_ns for number in late)
        seen += late
    assert sorted(seen) == sorted(set(ends) - dropped)
