"""When requests arrive: the processes that a workload may name, each with the keys that it needs and no others.

All but `closed` are open-loop: sends follow the schedule, whatever the answers do.
"""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from testbed.spec.fields import DurationS, Number, Spec


def _items(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


class Constant(Spec):
    """One session every 1 / rate seconds, the first at 0."""

    process: Literal["constant"]
    rate: Number = Field(gt=0)


class Poisson(Spec):
    """Independent arrivals: exponential gaps, `rate` sessions a second."""

    process: Literal["poisson"]
    rate: Number = Field(gt=0)


class Gamma(Spec):
    """Gamma gaps. `burstiness` is their shape: 1 is poisson, below 1 arrivals cluster, above 1 they even out."""

    process: Literal["gamma"]
    rate: Number = Field(gt=0)
    burstiness: Number = Field(gt=0)


class Bursts(Spec):
    """`rate` for `on`, nothing for `off`, and again from the start. It begins with a burst."""

    process: Literal["bursts"]
    on: DurationS = Field(gt=0)
    off: DurationS = Field(gt=0)
    rate: Number = Field(gt=0)
    burstiness: Number = Field(default=1.0, gt=0)


class Ramp(Spec):
    """The rate moves in a straight line over the duration."""

    process: Literal["ramp"]
    first_rate: Number = Field(alias="from", ge=0)
    last_rate: Number = Field(alias="to", ge=0)
    burstiness: Number = Field(default=1.0, gt=0)

    @model_validator(mode="after")
    def _rises_or_falls(self) -> "Ramp":
        if self.first_rate == self.last_rate:
            raise ValueError("from and to are equal, which is no ramp; write process: poisson with that rate")
        return self


class RateStep(Spec):
    """One rate, for some time."""

    rate: Number = Field(gt=0)
    duration: DurationS = Field(alias="for", gt=0)


class Step(Spec):
    """One rate after the other; the last one stays until the end of the workload."""

    process: Literal["step"]
    steps: Annotated[tuple[RateStep, ...], BeforeValidator(_items)]
    burstiness: Number = Field(default=1.0, gt=0)

    @model_validator(mode="after")
    def _some(self) -> "Step":
        if not self.steps:
            raise ValueError("steps is empty; give at least one, such as {rate: 1, for: 30s}")
        return self

    @property
    def total_s(self) -> float:
        """The time that all steps take as they are written."""
        return sum(step.duration for step in self.steps)


class Closed(Spec):
    """Closed loop, for comparison: each of `concurrency` users sends its next request when its last one has ended."""

    process: Literal["closed"]
    concurrency: int = Field(ge=1)


OpenArrival = Constant | Poisson | Gamma | Bursts | Ramp | Step
Arrival = Annotated[OpenArrival | Closed, Field(discriminator="process")]
