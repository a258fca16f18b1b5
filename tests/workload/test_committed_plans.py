"""The committed workloads: each can be planned, and the demo's is the same to the last token as it always was."""

import hashlib
import json
from itertools import pairwise

import pytest

from testbed.spec.load import load
from testbed.spec.workload import GROUPS, Workload
from testbed.workload.mixed import WorkloadPlan, plan_requests
from testbed.workload.scale import Speed, choose_scale
from tests.spec.committed import COMMITTED

TOKENS = tuple(range(3, 40_000))
SPEED = Speed(((64, 0.2), (512, 1.6)), 0.06)
"""That of a laptop: a prompt of 512 tokens takes 1.6 s, a token of an answer 60 ms."""

WORKLOADS = sorted(name for name, (_, model) in COMMITTED.items() if model is Workload)
SERVING = {"text_128_128": (128, 128), "text_4096_128": (4096, 128), "text_128_1024": (128, 1024)}


def workload(name: str) -> Workload:
    text, _ = COMMITTED[f"workloads/{name}.yaml"]
    return load(text, Workload, where=name).value


def plan_of(name: str, *, seed: int = 7, speed: Speed = SPEED) -> WorkloadPlan:
    """The plan that an experiment on a CPU makes."""
    written = workload(name)
    scale = choose_scale(
        written, speed, target_load=0.8, document_prefill_s=0.9, max_model_len=8192, min_documents=22, request_s=2.0
    )
    return plan_requests(written, seed=seed, scale=scale, tokens=TOKENS, max_model_len=8192)


def digest(made: WorkloadPlan) -> str:
    """All that an engine is asked, and when."""
    text = hashlib.sha256()
    for one in (*made.requests, *made.fill):
        said = [
            one.index, one.traffic_class, one.scheduled_at_s.hex(), list(one.prompt), one.max_tokens, one.stop,
            one.timeout_s, one.measured, one.document, one.session, one.turn,
        ]
        text.update(json.dumps(said).encode())
    return text.hexdigest()


@pytest.mark.parametrize(
    ("seed", "expected"),
    [
        (7, "e9304c53dd655a70e51c9f9581d12c248d44ddecb063d85baa8b6aadc112f7b3"),
        (8, "feaae3d574b5d40506872683354bd522c6a4b9a2887a500a9c05de3eb2ac0be1"),
    ],
)
def test_the_workload_of_the_demo_is_what_golden_answers_were_asked_for(seed: int, expected: str) -> None:
    # Golden answers are kept by prompt; a plan that draws otherwise would ask for all of them again. So this digest
    # stands as it was when the first of them were asked.
    assert digest(plan_of("mixed", seed=seed)) == expected


@pytest.mark.parametrize("name", [name for name in WORKLOADS if "trace" not in COMMITTED[name][0]])
def test_a_committed_workload_can_be_planned(name: str) -> None:
    short = name.removeprefix("workloads/").removesuffix(".yaml")
    made = plan_of(short)
    assert {one.traffic_class for one in made.requests} == set(workload(short).class_names)
    assert made.cut.inputs == made.cut.outputs == made.cut.documents == made.cut.too_long == 0
    assert all(one.hit_tokens is not None for one in made.requests)


@pytest.mark.parametrize("stop", ["forced", "natural"])
@pytest.mark.parametrize("name", SERVING)
def test_the_serving_set_is_two_hundred_requests_that_share_nothing(name: str, stop: str) -> None:
    made = plan_of(name if stop == "forced" else f"{name}_{stop}")
    assert len(made.requests) == 200
    assert {one.stop for one in made.requests} == {stop}
    assert {one.hit_tokens for one in made.requests} == {0}


@pytest.mark.parametrize(("name", "lengths"), SERVING.items())
def test_a_machine_that_is_fast_enough_gets_the_serving_set_as_it_is_written(
    name: str, lengths: tuple[int, int]
) -> None:
    # 1,024 tokens of 1 ms and a prefill of 0.1 s are below the two seconds that a request may take
    made = plan_of(name, speed=Speed(((4096, 0.1),), 0.001))
    assert {(len(one.prompt), one.max_tokens) for one in made.requests} == {lengths}


def test_a_slow_machine_gets_the_serving_set_shorter() -> None:
    # 0.2 s / 64 = 3.125 ms a token in, 60 ms a token out: 32 of each take 2.02 s, 31 of each 1.957 s
    made = plan_of("text_128_128")
    sizes = {(len(one.prompt), one.max_tokens) for one in made.requests}
    assert sizes == {(31, 31)}
    # answers are not cut below 16 tokens: 2 s - 16 x 0.06 s leave 1.04 s, in which 332.8 tokens are prefilled
    long = {(len(one.prompt), one.max_tokens) for one in plan_of("text_4096_128").requests}
    assert long == {(332, 16)}


def test_the_sweep_goes_up_in_five_steps_of_one_rate_each() -> None:
    made = plan_of("text_sweep")
    counts = [sum(80 * step <= one.scheduled_at_s < 80 * (step + 1) for one in made.requests) for step in range(5)]
    # rates 1 to 5: of all requests each step has 1/15 to 5/15, and n >= 20 in the smallest
    total = sum(counts)
    assert counts == sorted(counts)
    for step, count in enumerate(counts, start=1):
        assert count == pytest.approx(total * step / 15, abs=4 * (total * step / 15) ** 0.5)
    assert counts[0] >= 20


def test_the_committed_rounds_have_the_hits_that_they_were_built_for() -> None:
    made = plan_of("prefix_groups")
    names = [one.traffic_class for one in made.requests]
    assert [names.count(f"rounds.{group}") for group in GROUPS] == sorted(
        (names.count(f"rounds.{group}") for group in GROUPS), reverse=True
    )
    assert names.count("rounds.unrelated") >= 22
    assert {one.hit_tokens for one in made.requests if one.traffic_class == "rounds.cold"} == {0}
    assert {one.hit_tokens for one in made.requests if one.traffic_class == "rounds.early_change"} == {16}


def test_plans_are_in_order_of_time() -> None:
    for name in ("text_sweep", "prefix_groups"):
        requests = plan_of(name).requests
        assert all(one.scheduled_at_s <= other.scheduled_at_s for one, other in pairwise(requests))
