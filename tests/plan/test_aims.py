"""A fault's requests are chosen by the plan: the loads that it expects, counted once for all arms."""

from typing import Any

import pytest

from testbed.plan.aims import aimed_at
from testbed.plan.expectation import Expected
from testbed.spec.experiment import FaultSpec
from testbed.workload.request import PlannedRequest

# Ten requests, every fifth of them a chat: 0 and 5; of the documents 2, 3, 6, 7, 8 are to load.
REQUESTS = [
    PlannedRequest(
        index=index, traffic_class="doc" if index % 5 else "chat", scheduled_at_s=float(index), prompt=(1, 2),
        max_tokens=1, stop="natural", timeout_s=9.0,
    )
    for index in range(10)
]
EXPECTED = Expected(0, 0, 0, {"doc": 5}, frozenset({2, 3, 6, 7, 8}))


def aimed(trigger: dict[str, int], request_class: str | None = "doc", expected: Expected = EXPECTED) -> tuple[int, ...]:
    written: dict[str, Any] = {"kind": "hold", "for": "1s", "trigger": trigger, "request_class": request_class}
    return aimed_at(FaultSpec.model_validate(written), REQUESTS, expected)


@pytest.mark.parametrize(
    ("trigger", "chosen"), [({"every": 1}, (2, 3, 6, 7, 8)), ({"every": 2}, (3, 7)), ({"nth": 4}, (7,))]
)
def test_the_loads_that_are_expected_are_counted(trigger: dict[str, int], chosen: tuple[int, ...]) -> None:
    assert aimed(trigger) == chosen


def test_where_no_load_is_expected_all_requests_of_the_class_are_counted() -> None:
    # the documents are 1 2 3 4 6 7 8 9; each third of them is 3 and 7
    assert aimed({"every": 3}, expected=Expected(0, 0, 0, {}, frozenset())) == (3, 7)
    assert aimed({"every": 2}, "chat") == (5,)


def test_without_a_class_all_requests_are_counted() -> None:
    nothing = Expected(0, 0, 0, {}, frozenset())
    assert aimed({"every": 4}, None, nothing) == (3, 7)
