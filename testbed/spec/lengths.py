"""How many tokens a text has: a number, or a distribution with its few parameters."""

from typing import Annotated

from pydantic import BeforeValidator, Field, model_validator

from testbed.spec.fields import Number, Spec


def _items(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


IntPair = Annotated[tuple[int, int], BeforeValidator(_items)]
Positive = Annotated[int, Field(gt=0)]
Weight = Annotated[Number, Field(ge=0)]


class Lognormal(Spec):
    """Token counts with the given median and 95th percentile."""

    median: int = Field(gt=0)
    p95: int = Field(gt=0)

    @model_validator(mode="after")
    def _ordered(self) -> "Lognormal":
        if self.p95 <= self.median:
            raise ValueError(f"p95 ({self.p95}) must be above median ({self.median})")
        return self


class GammaLengths(Spec):
    """Token counts with the given mean; `cv` is their standard deviation over it."""

    mean: Number = Field(ge=1)
    cv: Number = Field(gt=0)


class Empirical(Spec):
    """Token counts as they were seen: each of `values`, as often as its weight says; without weights, all alike."""

    values: Annotated[tuple[Positive, ...], BeforeValidator(_items)]
    weights: Annotated[tuple[Weight, ...], BeforeValidator(_items)] | None = None

    @model_validator(mode="after")
    def _weighed(self) -> "Empirical":
        if not self.values:
            raise ValueError("values is empty; give at least one token count")
        if self.weights is None:
            return self
        if len(self.weights) != len(self.values):
            raise ValueError(f"there are {len(self.values)} values and {len(self.weights)} weights")
        if not sum(self.weights) > 0:
            raise ValueError("the weights sum to 0; at least one must be above")
        return self


class Lengths(Spec):
    """A distribution of token counts: exactly one of the kinds."""

    fixed: int | None = Field(default=None, gt=0)
    uniform: IntPair | None = None
    lognormal: Lognormal | None = None
    gamma: GammaLengths | None = None
    empirical: Empirical | None = None

    @model_validator(mode="after")
    def _one(self) -> "Lengths":
        kinds = tuple(type(self).model_fields)
        given = [name for name in kinds if getattr(self, name) is not None]
        if len(given) != 1:
            found = ", ".join(given) if given else "none"
            raise ValueError(f"give exactly one of {', '.join(kinds)}; found {found}")
        if self.uniform is not None and not 0 < self.uniform[0] <= self.uniform[1]:
            raise ValueError(f"uniform must be [low, high] with 0 < low <= high, not {list(self.uniform)}")
        return self
