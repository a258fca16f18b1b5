"""Event types of the journal: one small frozen struct per kind.

Each line of `events/*.jsonl` is one event. `at_ns` is the monotonic clock of the host that wrote it; the manifest holds
the offset of each host to the driver. This file imports msgspec and the standard library alone, for the probe loads it
inside the engine.
"""

from typing import ClassVar

import msgspec

SCHEMA = 1

ORDERS_KEY = "testbed.orders"
"""Key of a connector's extra settings under which the probe inside the engine finds its order file."""

PATH_KEY = "testbed.path"
"""Key of a connector's extra settings that names the path which the tier's bytes take."""


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """What all events carry; `arm` and `repetition` say which part of the run it belongs to.

    Units: `at_ns` nanoseconds. `seq` counts the events of one writer, from 0, without gaps.
    """

    kind_name: ClassVar[str] = ""
    at_ns: int
    host: str
    pid: int
    seq: int
    arm: str
    repetition: int
    schema: int = SCHEMA


class RequestPlanned(Event, frozen=True, kw_only=True, tag="request_planned"):
    """One request of the schedule. `scheduled_at_s` counts from the zero of its arm's schedule.

    With `after` it is due no earlier than `think_s` after the end of that request; RequestSent has when it was due.
    `hit_tokens` is the prefix that an endless cache would find, by the plan. Runs of earlier versions lack what follows
    `turn`.
    """

    request_id: str
    index: int
    traffic_class: str
    scheduled_at_s: float
    prompt_tokens: int
    max_tokens: int
    stop: str
    timeout_s: float
    prompt_key: str
    measured: bool
    document: int | None = None
    session: int | None = None
    turn: int | None = None
    after: int | None = None
    think_s: float = 0.0
    tenant: str | None = None
    priority: int = 0
    leaves_after_tokens: int | None = None
    hit_tokens: int | None = None


class RequestSent(Event, frozen=True, kw_only=True, tag="request_sent"):
    """The first byte of a request went out at `sent_at_ns`; it was due at `scheduled_at_ns`."""

    request_id: str
    scheduled_at_ns: int
    sent_at_ns: int


class RequestEnded(Event, frozen=True, kw_only=True, tag="request_ended"):
    """How a request ended: exactly one of ok, failed, timed_out, cancelled, rejected, not_sent.

    `chunk_at_ns` and `chunk_tokens` have one entry for each chunk that brought tokens. A time that never came is None.
    """

    request_id: str
    outcome: str
    reason: str
    scheduled_at_ns: int
    ended_at_ns: int
    sent_at_ns: int | None = None
    first_byte_at_ns: int | None = None
    first_token_at_ns: int | None = None
    last_token_at_ns: int | None = None
    chunk_at_ns: list[int] = []
    chunk_tokens: list[int] = []
    token_ids: list[int] = []
    finish_reason: str | None = None
    http_status: int | None = None
    usage_prompt_tokens: int | None = None
    usage_output_tokens: int | None = None
    usage_cached_tokens: int | None = None
    error: str | None = None


class KvLookup(Event, frozen=True, kw_only=True, tag="kv_lookup"):
    """LOOKUP: the tokens that the tier promises beyond the `local_tokens` which the engine holds itself.

    `reason` is empty for the tier's own answer; `deadline` or `attempts` when the guard shortened the promise.
    """

    request_id: str
    attempt: int
    prompt_tokens: int
    local_tokens: int
    promised_tokens: int
    tier_tokens: int
    is_async: bool
    first_asked_at_ns: int
    answered_at_ns: int
    reason: str = ""


class KvReserve(Event, frozen=True, kw_only=True, tag="kv_reserve"):
    """RESERVE: the engine allocated `blocks` for the `tokens` that are to be loaded."""

    request_id: str
    attempt: int
    tokens: int
    blocks: int


class KvLoadBegan(Event, frozen=True, kw_only=True, tag="kv_load_began"):
    """LOAD: bytes begin to move into `blocks` blocks. `load_bytes` is from the engine's own KV allocation."""

    request_id: str
    attempt: int
    blocks: int
    load_bytes: int
    path: str


class KvLoadEnded(Event, frozen=True, kw_only=True, tag="kv_load_ended"):
    """COMPLETE: the blocks are usable (`ok`), or the load failed for `reason`.

    `transfer_s` is the time in which bytes moved; None where the connector does not show it. Where they move while the
    engine goes on it lasts until the engine looked, which is never too short. `transfer_ended_at_ns` is when the real
    transfer was over, `given_up_at_ns` when the deadline had passed.
    """

    request_id: str
    attempt: int
    ok: bool
    blocks: int
    failed_blocks: int
    load_bytes: int
    path: str
    reason: str = ""
    began_at_ns: int | None = None
    transfer_ended_at_ns: int | None = None
    given_up_at_ns: int | None = None
    transfer_s: float | None = None


class KvSaved(Event, frozen=True, kw_only=True, tag="kv_saved"):
    """SAVE: the tier has taken the KV of a finished request, and its blocks are free again."""

    request_id: str


class KvLevelMoved(Event, frozen=True, kw_only=True, tag="kv_level_moved"):
    """Bytes moved between two levels of a tier, as far as the tier's own counters show it."""

    source: str
    target: str
    moved_bytes: int
    path: str
    request_id: str | None = None
    moved_s: float | None = None


class KvEvicted(Event, frozen=True, kw_only=True, tag="kv_evicted"):
    """Objects of a tier were deleted on purpose; the counts are the tier's own answer."""

    request_id: str | None
    objects: int
    levels: list[str]
    by: str


class KvAborted(Event, frozen=True, kw_only=True, tag="kv_aborted"):
    """A request ended while its KV was still on the way; `stage` is how far it had come."""

    request_id: str
    attempt: int
    stage: str


class StepScheduled(Event, frozen=True, kw_only=True, tag="step_scheduled"):
    """One engine step. `work` has (request_id, first position, tokens) for each request in it.

    `total_tokens` is the scheduler's own sum; `step` counts the steps of one engine process without gaps.
    """

    step: int
    total_tokens: int
    work: list[tuple[str, int, int]]
    preempted: list[str] = []


class RouteChosen(Event, frozen=True, kw_only=True, tag="route_chosen"):
    """The router gave the legs of a request to engines; `engines` has the engine of each leg.

    `in_flight` are the requests that each candidate had then, `scores` what the policy compared (the smallest wins;
    policy cost: predicted seconds to the first byte), `avoided` those that were passed over since they had failed.
    """

    request_id: str
    policy: str
    engines: dict[str, str]
    in_flight: dict[str, int] = {}
    scores: dict[str, float] = {}
    avoided: list[str] = []
    transfer: str | None = None


class LegBegan(Event, frozen=True, kw_only=True, tag="leg_began"):
    """The router turned to `engine` with one leg of a request: only, prefill or decode.

    `peer` is who the other engine of the transfer said that it is, where the leg is told so.
    """

    request_id: str
    leg: str
    engine: str
    peer: str | None = None


class LegEnded(Event, frozen=True, kw_only=True, tag="leg_ended"):
    """How one leg ended: ok, failed, timed_out or cancelled, with the reason. A time that never came is None.

    `pieces` counts the reads of the answer's body. The usage is what this engine said of its own work: what a prefill
    leg found in its cache and what a decode leg received are two figures.
    """

    request_id: str
    leg: str
    engine: str
    outcome: str
    reason: str
    began_at_ns: int
    sent_at_ns: int | None = None
    first_byte_at_ns: int | None = None
    last_byte_at_ns: int | None = None
    http_status: int | None = None
    pieces: int = 0
    body_bytes: int = 0
    usage_prompt_tokens: int | None = None
    usage_output_tokens: int | None = None
    usage_cached_tokens: int | None = None
    error: str | None = None


class FaultArmed(Event, frozen=True, kw_only=True, tag="fault_armed"):
    """A fault was set on its target. `intended` is how often it is to fire, None when that depends on the traffic."""

    fault: str
    fault_kind: str
    target: str
    trigger: str
    intended: int | None = None


class FaultApplied(Event, frozen=True, kw_only=True, tag="fault_applied"):
    """Who applies a fault says that it acted on a request: never proof by itself that it fired."""

    fault: str
    request_id: str
    stage: str
    phase: str
    held_s: float | None = None


class FaultFired(Event, frozen=True, kw_only=True, tag="fault_fired"):
    """The target shows that a fault took effect; `evidence` is what it showed and where."""

    fault: str
    request_id: str | None
    evidence: str


class FaultHealed(Event, frozen=True, kw_only=True, tag="fault_healed"):
    """A fault was taken back; `verified` says that a canary was served by the healthy target afterwards."""

    fault: str
    verified: bool
    detail: str = ""


class ComponentStarted(Event, frozen=True, kw_only=True, tag="component_started"):
    """A process of the deployment is ready."""

    component: str
    component_pid: int


class ComponentExited(Event, frozen=True, kw_only=True, tag="component_exited"):
    """A process of the deployment ended; `expected` when we asked for it."""

    component: str
    exit_status: int | None
    expected: bool


class Sample(Event, frozen=True, kw_only=True, tag="sample"):
    """Numbers read from a live part, with the names that the neutral collector gives them."""

    source: str
    values: dict[str, float]


class ArmBegan(Event, frozen=True, kw_only=True, tag="arm_began"):
    """The zero of an arm's schedule. `tier` tells whether a probe runs; `zero_at_ns` is scheduled time 0."""

    zero_at_ns: int
    probed: bool
    policy: str


class ArmEnded(Event, frozen=True, kw_only=True, tag="arm_ended"):
    """All requests of the arm have ended, or the arm was broken off for `reason`."""

    complete: bool
    reason: str = ""


class DriveEnded(Event, frozen=True, kw_only=True, tag="drive_ended"):
    """The client has seen the end of all its requests, and says how it fared; runs of earlier versions lack this.

    `client_cpu_s` is the CPU time of its `workers` processes from `zero_at_ns` to `ended_at_ns`. A stall is a look of
    its loop at the clock that came later than `loop_stall_limit_s`. With `max_concurrency` the answers set the rate.
    """

    zero_at_ns: int
    ended_at_ns: int
    workers: int
    client_cpu_s: float
    loop_stall_max_s: float
    loop_stall_count: int
    loop_stall_limit_s: float
    peak_open: int
    interrupted: bool
    max_concurrency: int | None = None


class TierReset(Event, frozen=True, kw_only=True, tag="tier_reset"):
    """The proof of a reset: a canary hit before it and the same canary missed after it.

    `None` where the arm has no tier to ask. `before_*` and `after_*` are tokens of one canary prompt.
    """

    canary_tokens: int
    before_local_tokens: int
    before_promised_tokens: int | None
    after_local_tokens: int
    after_promised_tokens: int | None
    saves_in_flight: int
    proven: bool
    detail: str = ""


class Note(Event, frozen=True, kw_only=True, tag="note"):
    """Anything worth telling a reader of the journal that has no kind of its own."""

    text: str


AnyEvent = (
    RequestPlanned
    | RequestSent
    | RequestEnded
    | KvLookup
    | KvReserve
    | KvLoadBegan
    | KvLoadEnded
    | KvSaved
    | KvLevelMoved
    | KvEvicted
    | KvAborted
    | StepScheduled
    | RouteChosen
    | LegBegan
    | LegEnded
    | FaultArmed
    | FaultApplied
    | FaultFired
    | FaultHealed
    | ComponentStarted
    | ComponentExited
    | Sample
    | ArmBegan
    | ArmEnded
    | DriveEnded
    | TierReset
    | Note
)
