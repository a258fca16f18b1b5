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
    """The SLO of one traffic class in seconds, and how it came about; None where it does not limit that."""

    ttft_s: float | None = None
    tpot_s: float | None = None
    e2e_s: float | None = None
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


class ClientCalibration(msgspec.Struct, frozen=True, kw_only=True):
    """How well the client of one machine keeps time, held against the stand-in's own stamps on the same clock.

    Each answer had `answer_chunks` chunks of a token, the first after `ttft_s`, the others `itl_s` apart. `max_rps` is
    the highest rate found at which the error of 99 of 100 requests stays below `error_limit_s`; the search ended there
    because of `ended_by`. The error of a request is the worst of its TTFT from sending and the lateness of each chunk.
    All figures are of that rate. A bias is a median of the client's figure minus the server's, an error_p99 and
    error_max are of its size. `placement` says which cores client and stand-in had, for they share a machine: an error
    that the stand-in makes by being busy is counted as the client's.
    """

    machine: str
    created: str
    versions: dict[str, str]
    cores: int
    pinned: bool
    placement: str
    error_limit_s: float
    max_rps: float
    ended_by: str
    answer_chunks: int
    ttft_s: float
    itl_s: float
    requests: int
    chunks: int
    error_p50_s: float
    error_p99_s: float
    error_max_s: float
    ttft_bias_s: float
    ttft_error_p99_s: float
    ttft_error_max_s: float
    itl_bias_s: float
    itl_error_p99_s: float
    itl_error_max_s: float
    send_lag_p50_s: float
    send_lag_p99_s: float
    send_lag_max_s: float
    client_cpu_ratio: float


class ArrivalFacts(msgspec.Struct, frozen=True, kw_only=True):
    """How far the planned arrivals of one traffic class lie from the process that was asked for.

    `distance` is Kolmogorov and Smirnov's, and `limit` what the right process exceeds once in twenty times; None where
    there is none, for the `reason`.
    """

    process: str
    arrivals: int
    distance: float | None = None
    limit: float | None = None
    reason: str = ""


class LoadFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What `testbed load` was asked to send, and where; never a key or a password.

    `prompts` is ids, text or chat; `lengths` says what the planned lengths count. `arrival` is constant, poisson,
    gamma, ramp or closed, with `request_rate` and `burstiness` as far as they mean something; or workload, which
    says it all. `extra_body` has the fields that were added to each body.
    """

    url: str
    path: str
    prompts: str
    lengths: str
    tokenizer: str | None = None
    workload: str | None = None
    arrival: str = "workload"
    request_rate: float | None = None
    burstiness: float | None = None
    max_concurrency: int | None = None
    ramp_up_strategy: str | None = None
    ramp_up_start_rps: float | None = None
    ramp_up_end_rps: float | None = None
    workers: int = 1
    extra_body: dict[str, Any] = {}
    label: str | None = None
    percentile_metrics: tuple[str, ...] = ("ttft", "tpot", "itl", "e2el")
    percentiles: tuple[float, ...] = (99.0,)


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """All facts of a run beside its events. `status` is running, complete, interrupted or broken.

    `kind` is experiment, or load for one drive of a server that was not deployed here, with its facts in `load`; how
    that server stores KV is not known, so `block_size` and `kv_bytes_per_token` are None then.
    """

    run: str
    experiment: str
    created: str
    status: str
    seed: int
    repetitions: int
    model: str
    dtype: str
    block_size: int | None
    kv_bytes_per_token: int | None
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
    client_calibration: ClientCalibration | None = None
    arrivals: dict[str, ArrivalFacts] = {}
    success_floor_ratio: float = 0.9
    kind: str = "experiment"
    load: LoadFacts | None = None


class GoldenAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The right answer to one prompt: greedy, alone, without tier and prefix cache.

    `second_ids[i]` is the runner-up at position i and `gaps_nats[i]` how far its log-probability lies behind.
    """

    token_ids: list[int]
    second_ids: list[int]
    gaps_nats: list[float]
    finish_reason: str


Golden = dict[str, GoldenAnswer]
