"""Traffic that a few numbers describe, as load generators do on their command lines: a workload of one class.

The numbers mean what they mean in `vllm bench serve`; what they come to is an ordinary workload, planned like a file's.
"""

import math
from dataclasses import dataclass

from testbed.errors import SpecError
from testbed.spec.arrival import Arrival, Closed, Constant, Gamma, Poisson, RateStep, Step
from testbed.spec.lengths import Lengths
from testbed.spec.workload import SystemPrompt, TrafficClass, Workload
from testbed.workload.scale import Scale, class_rates

CLASS = "random"
ASSUMED_DECODE_S = 0.02
RAMP_STEPS = 50
"""A ramp is made of so many rates, each for its share of the requests."""


@dataclass(frozen=True)
class RampUp:
    """A rate that moves from `start_rps` to `end_rps` from the first request to the last, by their number."""

    strategy: str
    start_rps: float
    end_rps: float


@dataclass(frozen=True)
class Described:
    """What was said of the traffic. A rate of None or infinity leaves the pace to `max_concurrency`.

    `burstiness` is the shape of the gamma gaps: 1 is Poisson, infinity constant. Lengths are even between
    length x (1 - `range_ratio`) and length x (1 + `range_ratio`); `prefix_len` tokens more stand before every prompt.
    """

    requests: int = 1000
    rate_rps: float | None = None
    burstiness: float = 1.0
    max_concurrency: int | None = None
    ramp_up: RampUp | None = None
    input_len: int = 1024
    output_len: int = 128
    range_ratio: float = 0.0
    prefix_len: int = 0
    forced: bool = True
    timeout_s: float = 600.0


def described_workload(said: Described) -> Workload:
    """The workload that was described.

    Raises: SpecError for numbers that make none; the flag stands before what is wrong.
    """
    _check(said)
    traffic = TrafficClass.model_validate({
        "input": _lengths(said.input_len, said.range_ratio), "output": _lengths(said.output_len, said.range_ratio),
        "stop": "forced" if said.forced else "natural", "timeout": f"{said.timeout_s:.3f}s", "distinct": True,
        "system_prompt": SystemPrompt(tokens=said.prefix_len) if said.prefix_len else None,
    })
    return Workload(name=CLASS, requests=said.requests, arrival=arrival_of(said), classes={CLASS: traffic})


def arrival_of(said: Described) -> Arrival:
    """How its requests arrive."""
    if said.ramp_up is not None:
        return _ramp(said.ramp_up, said.requests, said.burstiness)
    if said.rate_rps is None or math.isinf(said.rate_rps):
        return _closed(said)
    if math.isinf(said.burstiness):
        return Constant(process="constant", rate=said.rate_rps)
    if said.burstiness == 1:
        return Poisson(process="poisson", rate=said.rate_rps)
    return Gamma(process="gamma", rate=said.rate_rps, burstiness=said.burstiness)


def as_written(workload: Workload) -> Scale:
    """Nothing is scaled to a machine: lengths, rates and duration are those of the workload.

    Turns with planned times are due as if answers came at ASSUMED_DECODE_S a token.
    """
    rates = class_rates(workload)
    if workload.duration is not None:
        duration_s = workload.duration
    elif rates and workload.requests is not None:
        duration_s = workload.requests / sum(
            rate * workload.classes[name].session_requests for name, rate in rates.items()
        )
    else:
        duration_s = 0.0  # a closed loop lasts as long as its answers take
    return Scale(1.0, 1.0, duration_s, "as written", ASSUMED_DECODE_S)


def _closed(said: Described) -> Closed:
    """A loop that is closed by the cap; without one there is nothing that could be measured."""
    if said.max_concurrency is not None:
        return Closed(process="closed", concurrency=said.max_concurrency)
    if said.rate_rps is None:
        raise SpecError(
            "nothing says how fast requests arrive", where="testbed load",
            hint="give --request-rate 2, or --max-concurrency 4, or name a WORKLOAD",
        )
    raise SpecError(
        "at an infinite rate all requests are due at once, and what is measured is the length of our own queue",
        where="--request-rate", hint="give --max-concurrency N for a closed loop, or a rate that is a number",
    )


def _check(said: Described) -> None:
    """Every number on its own, and those that exclude each other."""
    above_zero = {
        "--num-prompts": said.requests, "--request-rate": said.rate_rps, "--burstiness": said.burstiness,
        "--max-concurrency": said.max_concurrency, "--random-input-len": said.input_len,
        "--random-output-len": said.output_len, "--request-timeout-seconds": said.timeout_s,
    }
    for flag, value in above_zero.items():
        if value is not None and not value > 0:
            raise SpecError(f"is {value:g}; must be above 0", where=flag)
    if not 0 <= said.range_ratio < 1:
        raise SpecError(f"is {said.range_ratio:g}; must be 0 or more, and below 1", where="--random-range-ratio")
    if said.prefix_len < 0:
        raise SpecError(f"is {said.prefix_len}; must be 0 or more", where="--random-prefix-len")
    if said.ramp_up is not None:
        _check_ramp(said.ramp_up, said.rate_rps)


def _check_ramp(ramp: RampUp, rate_rps: float | None) -> None:
    if ramp.strategy not in ("linear", "exponential"):
        raise SpecError(f"{ramp.strategy!r} is not known; linear and exponential are", where="--ramp-up-strategy")
    if rate_rps is not None:
        raise SpecError("the ramp says the rate; leave one of both out", where="--request-rate")
    least = "above 0" if ramp.strategy == "exponential" else "0 or more"
    too_low = ramp.start_rps < 0 or (ramp.strategy == "exponential" and ramp.start_rps == 0)
    if too_low or not math.isfinite(ramp.end_rps):
        raise SpecError(f"from {ramp.start_rps:g} to {ramp.end_rps:g}; must be {least}", where="--ramp-up-start-rps")
    if ramp.start_rps >= ramp.end_rps:
        raise SpecError(
            f"from {ramp.start_rps:g} to {ramp.end_rps:g} is no way up", where="--ramp-up-end-rps",
            hint="a rate that falls is a workload with arrival: {process: step, ...}",
        )


def _ramp(ramp: RampUp, requests: int, burstiness: float) -> Step:
    """Steps that each hold an equal share of the requests, at the rate of the middle of that share."""
    if math.isinf(burstiness):
        raise SpecError("a ramp has no constant gaps; give a number", where="--burstiness")
    count = min(RAMP_STEPS, requests)
    rates = [_rate_at(ramp, (number + 0.5) / count) for number in range(count)]
    steps = tuple(
        RateStep.model_validate({"rate": rate, "for": f"{requests / count / rate:.9f}s"}) for rate in rates
    )
    return Step(process="step", steps=steps, burstiness=burstiness)


def _rate_at(ramp: RampUp, share: float) -> float:
    if ramp.strategy == "linear":
        return ramp.start_rps + (ramp.end_rps - ramp.start_rps) * share
    return float(ramp.start_rps * (ramp.end_rps / ramp.start_rps) ** share)


def _lengths(length: int, range_ratio: float) -> Lengths:
    if range_ratio == 0:
        return Lengths(fixed=length)
    return Lengths(uniform=(max(1, math.floor(length * (1 - range_ratio))), math.ceil(length * (1 + range_ratio))))
