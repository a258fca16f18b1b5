"""`trace:` of a workload: recorded traffic in place of traffic classes, and what is done to it before it is sent."""

from typing import Literal

from pydantic import Field, model_validator

from testbed.spec.arrival import OpenArrival
from testbed.spec.fields import DurationS, Number, Spec

TraceFormat = Literal["mooncake", "azure", "sharegpt", "journal"]
TimeUnit = Literal["ms", "s"]

_OF_FORMAT = {
    "mooncake": ("time_unit", "block_tokens"),
    "azure": (),
    "sharegpt": ("arrival", "turns", "think", "default_output"),
    "journal": ("arm",),
}


class Window(Spec):
    """The part of a trace that is played, [from, to) on the trace's own clock, whose 0 is its first request."""

    begin: DurationS = Field(default=0.0, alias="from", ge=0)
    end: DurationS | None = Field(default=None, alias="to")

    @model_validator(mode="after")
    def _has_length(self) -> "Window":
        if self.end is not None and self.end <= self.begin:
            raise ValueError(f"to ({self.end:g} s) must be after from ({self.begin:g} s)")
        return self


class Trace(Spec):
    """One file of recorded requests. Keys of another format than its own are refused.

    `time_scale` multiplies times (0.5 plays twice as fast), `length_scale` the tokens of prompts, block by block, and
    of answers unless `output_scale` says otherwise. `timing: dequantised` spreads requests that share a time stamp
    over the `quantum` that follows it. `too_long` is what becomes of a request that the model's context can't hold.
    Requests with more than `long_above` prompt tokens are the class `long`, the others `short`. `stop` is forced unless
    a journal says otherwise. `arrival` to `default_output` are for conversations, which have no times: `limit` counts
    conversations there, and `default_output` is the answer's length where the file has no answer.
    """

    file: str
    format: TraceFormat
    timeout: DurationS = Field(gt=0)
    stop: Literal["forced", "natural"] | None = None
    timing: Literal["verbatim", "dequantised"] = "verbatim"
    quantum: DurationS | None = Field(default=None, gt=0)
    time_scale: Number = Field(default=1.0, gt=0)
    window: Window = Window()
    limit: int | None = Field(default=None, gt=0)
    length_scale: Number = Field(default=1.0, gt=0)
    output_scale: Number | None = Field(default=None, gt=0)
    bad_rows: Literal["refuse", "skip"] = "refuse"
    too_long: Literal["refuse", "skip", "cut"] = "refuse"
    long_above: int | None = Field(default=None, gt=0)
    time_unit: TimeUnit = "ms"
    block_tokens: int = Field(default=512, gt=0)
    arm: str | None = None
    arrival: OpenArrival | None = Field(default=None, discriminator="process")
    turns: Literal["all", "first"] = "all"
    think: DurationS = 0.0
    default_output: int | None = Field(default=None, gt=0)

    @model_validator(mode="after")
    def _fits_its_format(self) -> "Trace":
        foreign = [
            key for owner, keys in _OF_FORMAT.items() if owner != self.format
            for key in keys if key in self.model_fields_set
        ]
        if foreign:
            raise ValueError(f"format {self.format} has no {', '.join(foreign)}")
        if self.format == "sharegpt" and self.arrival is None:
            raise ValueError("conversations have no times, so arrival must say when they begin")
        if self.format == "sharegpt" and self.timing == "dequantised":
            raise ValueError("conversations have no time stamps to dequantise")
        if self.quantum is not None and self.timing != "dequantised":
            raise ValueError("quantum means nothing for timing verbatim")
        return self
