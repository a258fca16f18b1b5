"""Traffic that a few numbers describe."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.errors import SpecError
from testbed.spec.arrival import Closed, Constant, Gamma, Poisson, Step
from testbed.workload.described import CLASS, Described, RampUp, arrival_of, as_written, described_workload
from testbed.workload.mixed import plan_requests
from testbed.workload.request import PlannedRequest


def planned(said: Described) -> tuple[PlannedRequest, ...]:
    """The requests, with prompts from a counting corpus."""
    workload = described_workload(said)
    plan = plan_requests(workload, seed=3, scale=as_written(workload), tokens=range(5000), max_model_len=10_000)
    return plan.requests


def test_so_many_requests_have_the_lengths_that_were_asked_for() -> None:
    requests = planned(Described(requests=7, rate_rps=2.0, input_len=30, output_len=5, prefix_len=11))
    assert len(requests) == 7
    assert {(one.traffic_class, len(one.prompt), one.max_tokens, one.stop) for one in requests} == {
        (CLASS, 41, 5, "forced")
    }
    assert len({one.prompt[:11] for one in requests}) == 1


def test_prompts_share_their_prefix_and_nothing_else() -> None:
    requests = planned(Described(requests=300, rate_rps=20.0, input_len=30, output_len=5, prefix_len=11))
    assert [one.hit_tokens for one in requests] == [0, *[11] * 299]


def test_a_constant_rate_has_equal_gaps_and_nothing_is_scaled() -> None:
    requests = planned(Described(requests=5, rate_rps=4.0, burstiness=math.inf, input_len=10))
    assert [one.scheduled_at_s for one in requests] == pytest.approx([0.0, 0.25, 0.5, 0.75, 1.0])


def test_burstiness_chooses_the_process() -> None:
    assert arrival_of(Described(rate_rps=2.0)) == Poisson(process="poisson", rate=2.0)
    assert arrival_of(Described(rate_rps=2.0, burstiness=0.5)) == Gamma(process="gamma", rate=2.0, burstiness=0.5)
    assert arrival_of(Described(rate_rps=2.0, burstiness=math.inf)) == Constant(process="constant", rate=2.0)


def test_a_range_of_lengths_lies_evenly_around_the_length() -> None:
    # 100 x (1 -+ 0.3) = 70 to 130; 10 x (1 -+ 0.3) = 7 to 13
    requests = planned(Described(requests=200, rate_rps=9.0, input_len=100, output_len=10, range_ratio=0.3))
    lengths, answers = {len(one.prompt) for one in requests}, {one.max_tokens for one in requests}
    assert min(lengths) >= 70
    assert max(lengths) <= 130
    assert answers == set(range(7, 14))


def test_without_a_rate_the_cap_closes_the_loop() -> None:
    said = Described(requests=6, max_concurrency=2, input_len=10)
    assert arrival_of(said) == arrival_of(Described(rate_rps=math.inf, max_concurrency=2)) == Closed(
        process="closed", concurrency=2
    )
    assert [one.after for one in planned(said)] == [None, None, 0, 1, 2, 3]


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (Described(), "give --request-rate 2, or --max-concurrency 4, or name a WORKLOAD"),
        (Described(rate_rps=math.inf), "what is measured is the length of our own queue"),
        (Described(rate_rps=0.0), "--request-rate: is 0; must be above 0"),
        (Described(rate_rps=math.nan), "--request-rate: is nan; must be above 0"),
        (Described(rate_rps=1.0, requests=0), "--num-prompts: is 0"),
        (Described(rate_rps=1.0, burstiness=-1.0), "--burstiness: is -1"),
        (Described(rate_rps=1.0, range_ratio=1.0), "--random-range-ratio: is 1"),
        (Described(rate_rps=1.0, prefix_len=-1), "--random-prefix-len: is -1"),
        (Described(rate_rps=1.0, ramp_up=RampUp("linear", 1, 2)), "the ramp says the rate"),
        (Described(ramp_up=RampUp("quadratic", 1, 2)), "linear and exponential are"),
        (Described(ramp_up=RampUp("linear", 2, 1)), "is no way up"),
        (Described(ramp_up=RampUp("exponential", 0, 1)), "must be above 0"),
        (Described(ramp_up=RampUp("linear", 1, 2), burstiness=math.inf), "a ramp has no constant gaps"),
    ],
)
def test_numbers_that_describe_no_traffic_are_refused(said: Described, told: str) -> None:
    with pytest.raises(SpecError) as caught:
        described_workload(said)
    assert told in str(caught.value)


def test_a_linear_ramp_goes_up_by_request_as_vllm_means_it() -> None:
    arrival = arrival_of(Described(requests=4, ramp_up=RampUp("linear", 0, 8)))
    assert isinstance(arrival, Step)
    # four requests, each a quarter of the way: the middles of the quarters are at 1/8, 3/8, 5/8, 7/8 of 8 a second
    assert [step.rate for step in arrival.steps] == pytest.approx([1.0, 3.0, 5.0, 7.0])
    assert [step.duration for step in arrival.steps] == pytest.approx([1.0, 1 / 3, 1 / 5, 1 / 7])


def test_an_exponential_ramp_multiplies_the_rate_by_equal_factors() -> None:
    arrival = arrival_of(Described(requests=2, ramp_up=RampUp("exponential", 1, 16)))
    assert isinstance(arrival, Step)
    # 16 to the power of 1/4 and 3/4
    assert [step.rate for step in arrival.steps] == pytest.approx([2.0, 8.0])


@given(st.integers(1, 400), st.floats(0.1, 50), st.floats(1.1, 20))
def test_a_ramp_has_all_its_requests_at_rising_rates(requests: int, start_rps: float, factor: float) -> None:
    arrival = arrival_of(Described(requests=requests, ramp_up=RampUp("exponential", start_rps, start_rps * factor)))
    assert isinstance(arrival, Step)
    assert sum(step.rate * step.duration for step in arrival.steps) == pytest.approx(requests, rel=1e-6)
    assert all(before.rate < after.rate for before, after in pairwise(arrival.steps))
