"""How far a plan lies from the arrivals that were asked for, by hand."""

from typing import Any

import pytest

from testbed.missing import Missing
from testbed.plan.arrivals import ALL, arrival_distances
from testbed.spec.workload import Workload
from testbed.workload.mixed import Cut, WorkloadPlan
from testbed.workload.request import PlannedRequest

POISSON = {"process": "poisson", "rate": 1.0}
CLASS = {"input": {"fixed": 8}, "output": {"fixed": 4}, "stop": "natural", "timeout": "9s"}


def request(index: int, at_s: float, traffic_class: str = "chat", session: int | None = None) -> PlannedRequest:
    """One request of a plan."""
    return PlannedRequest(
        index=index, traffic_class=traffic_class, scheduled_at_s=at_s, prompt=(1,), max_tokens=4, stop="natural",
        timeout_s=9.0, session=session,
    )


def planned(*requests: PlannedRequest) -> WorkloadPlan:
    """A plan of ten seconds."""
    return WorkloadPlan(documents=(), requests=requests, fill=(), cut=Cut(), duration_s=10.0)


def workload(**changes: Any) -> Workload:
    """One class of Poisson arrivals over ten seconds."""
    written = {"name": "w", "duration": "10s", "classes": {"chat": {**CLASS, "arrival": POISSON}}}
    return Workload.model_validate(written | changes)


def test_a_session_arrives_once_however_many_turns_it_has() -> None:
    # sessions at 2 and 6 s of ten; the turns at 3 and 9 s are no arrivals. Of the first half at 2 s 0.2 should have
    # come and before it none has; at 6 s 0.6 should have and 0.5 has; after it all have: 1 - 0.6 = 0.4
    plan = planned(*(request(k, at_s, session=k // 2) for k, at_s in enumerate((2.0, 3.0, 6.0, 9.0))))
    found = arrival_distances(workload(), plan)["chat"]
    assert (found.process, found.arrivals) == ("poisson", 2)
    assert found.distance == pytest.approx(0.4)
    # 1.36 / sqrt(2)
    assert found.limit == pytest.approx(0.962, abs=1e-3)


def test_each_request_without_a_session_is_an_arrival() -> None:
    plan = planned(*(request(k, k + 0.5) for k in range(10)))
    found = arrival_distances(workload(), plan)["chat"]
    # evenly spread: never further than half a request from the straight line
    assert found.arrivals == 10
    assert found.distance == pytest.approx(0.05)


def test_classes_that_divide_one_arrival_are_held_against_it_together() -> None:
    classes = {"chat": {**CLASS, "share": 0.5}, "doc": {**CLASS, "share": 0.5}}
    plan = planned(*(request(k, k + 0.5, "chat" if k % 2 else "doc") for k in range(10)))
    found = arrival_distances(workload(arrival=POISSON, classes=classes), plan)
    assert list(found) == [ALL]
    assert found[ALL].arrivals == 10
    assert found[ALL].distance == pytest.approx(0.05)


def test_a_round_of_prefix_groups_is_one_session_of_its_class() -> None:
    groups = {"prefix": {"fixed": 64}, "change_at": 3}
    names = ("cold", "hot", "early_change", "unrelated")
    classes = {"group": {**CLASS, "arrival": POISSON, "prefix_groups": groups}}
    rounds = [request(4 * k + place, at_s + place, f"group.{name}", session=k)
              for k, at_s in enumerate((2.0, 6.0)) for place, name in enumerate(names)]
    found = arrival_distances(workload(classes=classes), planned(*rounds))["group"]
    assert found.arrivals == 2
    assert found.distance == pytest.approx(0.4)


def test_a_closed_loop_has_no_distance_and_says_why() -> None:
    closed = Workload.model_validate({
        "name": "w", "requests": 4, "arrival": {"process": "closed", "concurrency": 2}, "classes": {"chat": CLASS},
    })
    found = arrival_distances(closed, planned(request(0, 0.0), request(1, 0.0)))[ALL]
    assert found.distance == found.limit == Missing("a closed loop has no intended arrivals")
