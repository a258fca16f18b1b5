"""`manifest.json`: what a run was, so that a stranger can read its journal years later."""

from typing import Any

import msgspec


class FaultFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One fault of an arm as planned. `minimum` is how often it must fire for the arm to be valid.

    `fail_reason` is why a load that it strikes ends: load_error or deadline; empty where it fails none.
    """

    fault: str
    fault_kind: str
    target: str
    trigger: str
    stage: str
    minimum: int
    fails_loads: bool
    fail_reason: str = ""
    hold_s: float | None = None


class ArmFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One arm as planned. `probed` arms have a probe in the engine; the others have counters only."""

    name: str
    tier: str
    probed: bool
    policy: str
    attempts: int
    settings: dict[str, Any] = {}
    faults: list[FaultFacts] = []
    control: str | None = None
    load_deadline_s: float | None = None


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The SLO of one traffic class in seconds, and how it came about."""

    ttft_s: float
    tpot_s: float
    derivation: str


class HypothesisFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The claim of the experiment, written before the run; `ratio` is like "< 0.8"."""

    bottleneck: str
    metric: str
    traffic_class: str
    arm: str
    over: str
    ratio: str
    refuted_by: str


class PathRate(msgspec.Struct, frozen=True, kw_only=True):
    """A path that KV bytes take. Rates in bytes per second; `nominal` None where no data sheet has one.

    `calibrated` is the best of `tries`; `spread_ratio` is (best - median) / best over them.
    """

    path: str
    nominal_bytes_per_s: float | None
    calibrated_bytes_per_s: float | None
    spread_ratio: float | None
    tries: int
    source: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """All facts of a run beside its events. `status` is running, complete, interrupted or broken."""

    run: str
    experiment: str
    created: str
    status: str
    seed: int
    repetitions: int
    model: str
    dtype: str
    block_size: int
    kv_bytes_per_token: int
    arms: list[ArmFacts]
    limits: dict[str, Limits]
    required_metrics: list[str]
    paths: list[PathRate]
    tie_gap_nats: float
    send_lag_limit_s: float
    schema: int = 1
    stub: bool = False
    hypothesis: HypothesisFacts | None = None
    arm_order: list[str] = []
    specs: dict[str, str] = {}
    plan: str = ""
    versions: dict[str, str] = {}
    git_commit: str | None = None
    host: dict[str, Any] = {}
    clock_offsets_ns: dict[str, list[int]] = {}
    evidence: dict[str, Any] = {}
    left_behind: list[str] | None = None
    durations_s: dict[str, float] = {}


class GoldenAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The right answer to one prompt: greedy, alone, without tier and prefix cache.

    `second_ids[i]` is the runner-up at position i and `gaps_nats[i]` how far its log-probability lies behind.
    """

    token_ids: list[int]
    second_ids: list[int]
    gaps_nats: list[float]
    finish_reason: str


Golden = dict[str, GoldenAnswer]
