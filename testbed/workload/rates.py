"""How many arrivals a process is expected to have by a moment, and the moment by which it has so many.

Both are exact formulas. Arrival times are made with the second, from counts that are drawn at a rate of one, and are
judged with the first.
"""

import math
from collections.abc import Iterator

from testbed.spec.arrival import Bursts, OpenArrival, Ramp, RateStep, Step


def expected_count(arrival: OpenArrival, at_s: float, duration_s: float) -> float:
    """Expected arrivals in [0, at_s]; only a ramp depends on `duration_s`, the time that it takes."""
    if isinstance(arrival, Bursts):
        cycles, rest_s = divmod(at_s, arrival.on + arrival.off)
        return arrival.rate * (cycles * arrival.on + min(rest_s, arrival.on))
    if isinstance(arrival, Ramp):
        ramp_s = min(at_s, duration_s)
        slope = (arrival.last_rate - arrival.first_rate) / duration_s
        return arrival.first_rate * ramp_s + slope * ramp_s**2 / 2 + arrival.last_rate * (at_s - ramp_s)
    if isinstance(arrival, Step):
        return sum(step.rate * max(0.0, min(at_s, end_s) - start_s) for step, start_s, end_s in _spans(arrival))
    return arrival.rate * at_s


def moment_s(arrival: OpenArrival, count: float, duration_s: float) -> float:
    """When `count` arrivals are expected to have come; infinite where that many never come.

    Units: seconds from the zero of the schedule.
    """
    if isinstance(arrival, Bursts):
        cycles, rest = divmod(count, arrival.rate * arrival.on)
        return cycles * (arrival.on + arrival.off) + rest / arrival.rate
    if isinstance(arrival, Ramp):
        return _ramp_moment_s(arrival, count, duration_s)
    if isinstance(arrival, Step):
        return _step_moment_s(arrival, count)
    return count * (1.0 / arrival.rate)


def at_ratio(arrival: OpenArrival, ratio: float) -> OpenArrival:
    """The same process with all its rates times `ratio`; its times stay as they are written."""
    if isinstance(arrival, Ramp):
        changed: dict[str, object] = {
            "first_rate": arrival.first_rate * ratio, "last_rate": arrival.last_rate * ratio
        }
    elif isinstance(arrival, Step):
        steps = (step.model_copy(update={"rate": step.rate * ratio}) for step in arrival.steps)
        changed = {"steps": tuple(steps)}
    else:
        changed = {"rate": arrival.rate * ratio}
    return arrival.model_copy(update=changed)


def mean_rate(arrival: OpenArrival, duration_s: float) -> float:
    """Sessions a second over the whole duration."""
    return expected_count(arrival, duration_s, duration_s) / duration_s


def usual_rate(arrival: OpenArrival, duration_s: float | None) -> float:
    """The mean rate over `duration_s` or, where none is set, over one cycle of bursts or over all steps."""
    if not isinstance(arrival, Bursts | Ramp | Step):
        return arrival.rate
    if duration_s is not None:
        return mean_rate(arrival, duration_s)
    if isinstance(arrival, Bursts):
        return mean_rate(arrival, arrival.on + arrival.off)
    return mean_rate(arrival, arrival.total_s if isinstance(arrival, Step) else 1.0)


def _ramp_moment_s(arrival: Ramp, count: float, duration_s: float) -> float:
    on_ramp = duration_s * (arrival.first_rate + arrival.last_rate) / 2
    if count > on_ramp:
        return duration_s + (count - on_ramp) / arrival.last_rate if arrival.last_rate > 0 else math.inf
    # The root of first x t + slope x t^2 / 2 = count, in the form that stays exact for a small slope.
    slope = (arrival.last_rate - arrival.first_rate) / duration_s
    under_root = max(0.0, arrival.first_rate**2 + 2 * slope * count)
    below = arrival.first_rate + math.sqrt(under_root)
    return 2 * count / below if below > 0 else 0.0


def _step_moment_s(arrival: Step, count: float) -> float:
    left = count
    for step, start_s, end_s in _spans(arrival):
        here = step.rate * (end_s - start_s)
        if left <= here:
            return start_s + left / step.rate
        left -= here
    raise AssertionError("the last step has no end")


def _spans(arrival: Step) -> Iterator[tuple[RateStep, float, float]]:
    """Each step with its start and its end; the last one has none."""
    start_s = 0.0
    for number, step in enumerate(arrival.steps, start=1):
        end_s = math.inf if number == len(arrival.steps) else start_s + step.duration
        yield step, start_s, end_s
        start_s = end_s
