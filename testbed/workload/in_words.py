"""A workload's traffic in words: how it arrives, and whether its sends wait for answers."""

from collections.abc import Iterator, Sequence

from testbed.spec.arrival import Arrival, Bursts, Closed, Constant, OpenArrival, Poisson, Ramp, Step
from testbed.spec.workload import Workload
from testbed.workload.rates import at_ratio
from testbed.workload.request import PlannedRequest


def arrivals_text(workload: Workload, rate_ratio: float) -> Iterator[str]:
    """A line for each process, with the rates that are really asked."""
    if workload.arrival is not None:
        shares = ", ".join(f"{share:g} {name}" for name, share in workload.shares.items())
        yield f"sessions arrive {_process(workload.arrival, rate_ratio)}; shares: {shares}"
    for name, traffic in workload.classes.items():
        if traffic.arrival is not None:
            yield f"sessions of {name} arrive {_process(traffic.arrival, rate_ratio)}"


def loop_text(requests: Sequence[PlannedRequest]) -> str:
    """Open-loop or closed-loop, as every workload must declare."""
    waiting = closed_loop_classes(requests)
    if not waiting:
        return "open-loop: sends follow the schedule, whatever the answers do"
    count = sum(request.after is not None for request in requests)
    return f"closed-loop: {count} of {len(requests)} requests wait for the answer to another one ({', '.join(waiting)})"


def closed_loop_classes(requests: Sequence[PlannedRequest]) -> tuple[str, ...]:
    """The classes in which requests wait for answers; all others are open-loop."""
    return tuple(sorted({request.traffic_class for request in requests if request.after is not None}))


def _process(arrival: Arrival, rate_ratio: float) -> str:
    if isinstance(arrival, Closed):
        return f"as answers come, {arrival.concurrency} at a time"
    asked = at_ratio(arrival, rate_ratio)
    return f"{_form(asked)}{_clustering(asked)}"


def _form(asked: OpenArrival) -> str:
    if isinstance(asked, Bursts):
        return f"in bursts: {asked.rate:.4g}/s for {asked.on:g} s, then none for {asked.off:g} s"
    if isinstance(asked, Ramp):
        return f"on a ramp from {asked.first_rate:.4g}/s to {asked.last_rate:.4g}/s"
    if isinstance(asked, Step):
        return "in steps: " + ", ".join(f"{step.rate:.4g}/s for {step.duration:g} s" for step in asked.steps)
    return f"at {asked.rate:.4g}/s, {asked.process}"


def _clustering(asked: OpenArrival) -> str:
    if isinstance(asked, Constant | Poisson) or asked.burstiness == 1.0:
        return ""
    return f", burstiness {asked.burstiness:g}"
