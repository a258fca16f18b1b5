"""`configs/workloads/*.yaml`: the traffic, by class."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from testbed.spec.fields import DurationS, Number, Spec

IntPair = Annotated[tuple[int, int], BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value)]


class Lognormal(Spec):
    """Token counts with the given median and 95th percentile."""

    median: int = Field(gt=0)
    p95: int = Field(gt=0)

    @model_validator(mode="after")
    def _ordered(self) -> "Lognormal":
        if self.p95 <= self.median:
            raise ValueError(f"p95 ({self.p95}) must be above median ({self.median})")
        return self


class Lengths(Spec):
    """A distribution of token counts: exactly one of the kinds."""

    fixed: int | None = Field(default=None, gt=0)
    uniform: IntPair | None = None
    lognormal: Lognormal | None = None

    @model_validator(mode="after")
    def _one(self) -> "Lengths":
        given = [name for name in ("fixed", "uniform", "lognormal") if getattr(self, name) is not None]
        if len(given) != 1:
            found = ", ".join(given) if given else "none"
            raise ValueError(f"give exactly one of fixed, uniform, lognormal; found {found}")
        if self.uniform is not None and not 0 < self.uniform[0] <= self.uniform[1]:
            raise ValueError(f"uniform must be [low, high] with 0 < low <= high, not {list(self.uniform)}")
        return self


class Arrival(Spec):
    """Open-loop arrivals: sends follow the schedule, whatever the answers do. `rate` is sessions a second."""

    process: Literal["poisson", "constant"]
    rate: Number = Field(gt=0)


class Popularity(Spec):
    """How unevenly documents are asked: weight of rank k is 1 / k^zipf; 0 is even."""

    zipf: Number = Field(ge=0)


class Documents(Spec):
    """Long texts that are asked more than once."""

    count: int = Field(gt=0)
    tokens: Lengths
    popularity: Popularity


class SystemPrompt(Spec):
    """Tokens that each request of a class begins with."""

    tokens: int = Field(gt=0)


class TrafficClass(Spec):
    """One kind of request. `input` is what is new in it, beside system prompt, document and earlier turns."""

    arrival: Arrival
    input: Lengths
    output: Lengths
    stop: Literal["forced", "natural"]
    timeout: DurationS
    system_prompt: SystemPrompt | None = None
    turns: int = Field(default=1, ge=1)
    think: DurationS = 0.0
    documents: Documents | None = None


class Workload(Spec):
    """Mixed traffic over `duration`. Classes draw from independent random streams."""

    name: str
    duration: DurationS
    classes: dict[str, TrafficClass] = Field(min_length=1)
