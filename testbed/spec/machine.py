"""`configs/models`, `configs/hardware`, `configs/slo`: the model, the machine, and the limits of good service."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field, model_validator

from testbed.spec.fields import DurationS, Number, SizeBytes, Spec

DTYPE_BYTES: Mapping[str, int] = {"float32": 4, "float16": 2, "bfloat16": 2}


class Shape(Spec):
    """What planning needs of a model that is not on this disk. K and V of a layer: [tokens, kv_heads, head_dim]."""

    layers: int = Field(gt=0)
    kv_heads: int = Field(gt=0)
    head_dim: int = Field(gt=0)
    dtype: Literal["bfloat16", "float16"]
    weights: SizeBytes


class Model(Spec):
    """Where a model comes from. `source` smollm2 and tiny are built here; `folder` is one on this disk.

    One from a `hub` is planned by its `shape`, and must be in the hub's cache when it is deployed.
    """

    name: str
    source: Literal["smollm2", "tiny", "folder", "hub"]
    folder: str | None = None
    hub: str | None = None
    shape: Shape | None = None
    max_model_len: int = Field(gt=0)

    @model_validator(mode="after")
    def _hub_says_which(self) -> "Model":
        if self.source == "hub" and (self.hub is None or self.shape is None):
            raise ValueError("a model from a hub needs hub (its id there) and shape")
        return self


class Gpu(Spec):
    """One GPU, and how many stand in one machine: nominal figures of its data sheet; rates are bytes a second one way.

    `utilization` is the share of the memory that engines may use; `reserve` what activations, graphs and the runtime
    are taken to need of it. `rdma` says whether such machines have network cards that write into its memory.
    """

    memory: SizeBytes
    per_node: int = Field(ge=1)
    rdma: bool
    memory_rate: SizeBytes
    host_rate: SizeBytes
    link_rate: SizeBytes | None = None
    bf16_tflops: Number = Field(gt=0)
    utilization: Number = Field(default=0.9, gt=0, lt=1)
    reserve: SizeBytes


class Hardware(Spec):
    """What differs between machines, and so what the lengths and rates of a workload are scaled to.

    `target_load` is the share of this machine's measured capacity that the no-tier arm is to use. The median document
    is to take `document_prefill`; in a workload without any, a median request alone is to take at most `request`.
    `context` is how long a request may be in a deployment that no workload was planned for.
    """

    name: str
    device: Literal["cpu", "cuda"]
    block_size: int = Field(gt=0)
    target_load: Number = Field(gt=0, lt=1)
    document_prefill: DurationS
    request: DurationS | None = None
    context: int = Field(default=2048, gt=0)
    gpu: Gpu | None = None
    source: str

    @model_validator(mode="after")
    def _gpu_where_there_is_one(self) -> "Hardware":
        if (self.device == "cuda") != (self.gpu is not None):
            raise ValueError("device cuda and the figures below gpu belong together: give both or neither")
        return self


class Slo(Spec):
    """Limits as multiples of the unloaded no-tier latency, measured on this machine before the arms run."""

    name: str
    kind: Literal["multiples"]
    ttft: Number = Field(gt=1)
    tpot: Number = Field(gt=1)
    source: str
