"""`configs/experiments/*.yaml`: the arms, what they differ in, and what is expected of them."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from testbed.spec.fields import DurationS, Number, Spec

Stage = Literal["lookup", "reserve", "load", "complete"]


def _pair(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


class TriggerSpec(Spec):
    """Which loads a fault strikes, of those that the plan expects: each `every`-th, or only the `nth` (from 1)."""

    every: int | None = Field(default=None, ge=1)
    nth: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _one(self) -> "TriggerSpec":
        if (self.every is None) == (self.nth is None):
            raise ValueError("give exactly one of every, nth")
        return self


class FaultSpec(Spec):
    """One fault of an arm. Which keys a kind needs, its own file in failure_injection/faults says.

    `request_class` aims at one traffic class only; `times` limits how often it fires.
    """

    kind: str
    tier: Literal["tier"] | None = None
    between: Annotated[tuple[Stage, Stage], BeforeValidator(_pair)] | None = None
    hold: DurationS | None = None
    duration: DurationS | None = Field(default=None, alias="for")
    trigger: TriggerSpec
    times: int | None = Field(default=None, ge=1)
    request_class: str | None = None
    pattern: Literal["zeros", "foreign"] | None = None


class Arm(Spec):
    """One configuration under comparison: the topology with `set` applied, and its faults."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    set: dict[str, Any] = {}
    faults: Annotated[tuple[FaultSpec, ...], BeforeValidator(_pair)] = ()
    control: str | None = None


class Prediction(Spec):
    """The number that the hypothesis is about: `metric` of `class`, `arm` over another arm, and the claimed `ratio`."""

    metric: str
    traffic_class: str = Field(alias="class")
    arm: str
    over: str
    ratio: str = Field(pattern=r"^[<>] ?\d+(\.\d+)?$")


class Hypothesis(Spec):
    """Written before the run: the bottleneck, what it predicts, and what would refute it."""

    bottleneck: str
    predicts: Prediction
    refuted_by: str


class EngineKv(Spec):
    """The engine's own KV memory as a share of the tokens in all documents."""

    working_set: Number = Field(gt=0)


class Experiment(Spec):
    """Arms over one workload on one topology."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    topology: str
    workload: str
    slo: str
    seed: int
    repetitions: int = Field(default=1, ge=1)
    engine_kv: EngineKv
    fill: Literal["documents", "none"] = "none"
    hypothesis: Hypothesis | None = None
    required_metrics: Annotated[tuple[str, ...], BeforeValidator(_pair)] = ()
    arms: Annotated[tuple[Arm, ...], BeforeValidator(_pair)] = Field(min_length=1)
