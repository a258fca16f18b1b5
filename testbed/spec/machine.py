"""`configs/models`, `configs/hardware`, `configs/slo`: the model, the machine, and the limits of good service."""

from typing import Literal

from pydantic import Field

from testbed.spec.fields import DurationS, Number, Spec


class Model(Spec):
    """Where a model comes from. `source` smollm2 and tiny are built here; `folder` is one on this disk."""

    name: str
    source: Literal["smollm2", "tiny", "folder"]
    folder: str | None = None
    max_model_len: int = Field(gt=0)


class Hardware(Spec):
    """What differs between machines, and so what the lengths and rates of a workload are scaled to.

    `target_load` is the share of this machine's measured capacity that the no-tier arm is to use. The median document
    is to take `document_prefill`; in a workload without any, a median request alone is to take at most `request`.
    """

    name: str
    device: Literal["cpu", "cuda"]
    block_size: int = Field(gt=0)
    target_load: Number = Field(gt=0, lt=1)
    document_prefill: DurationS
    request: DurationS | None = None
    source: str


class Slo(Spec):
    """Limits as multiples of the unloaded no-tier latency, measured on this machine before the arms run."""

    name: str
    kind: Literal["multiples"]
    ttft: Number = Field(gt=1)
    tpot: Number = Field(gt=1)
    source: str
