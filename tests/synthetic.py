"""A made-up run with the shape of a real one, for tests of metrics, checks and report.

A small engine is played by hand: one queue, steps of at most 512 tokens, a local memory of two documents, and a tier
that holds all of them. It is no model of any engine's speed. Tests take the run and break one thing in it.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, TypeVar

import msgspec
import numpy as np

from testbed.journal import events as ev
from testbed.journal.manifest import ArmFacts, FaultFacts, GoldenAnswer
from testbed.journal.reader import Journal
from testbed.journal.run import Run
from tests.demo_facts import BLOCK, DEADLINE_S, HOLD_S, KV_BYTES, RATE, RUN, arms, fault, manifest

__all__ = [
    "BLOCK", "KV_BYTES", "RATE", "RUN", "added", "arms", "changed", "demo_run", "event", "fault", "first", "manifest",
    "ns", "with_facts", "without",
]

CLIENT, CONDUCTOR, INJECTOR, ENGINE = 11, 12, 13, 100
E = TypeVar("E", bound=ev.Event)


@dataclass(frozen=True)
class Planned:
    """One request of the made-up schedule."""

    index: int
    traffic_class: str
    at_s: float
    prompt: int
    output: int
    key: str
    document: int | None = None
    measured: bool = True


@dataclass
class Live:
    """A request inside the made-up engine."""

    planned: Planned
    request_id: str
    local: int
    start: int
    position: int
    token_at_s: list[float] = field(default_factory=list)


@dataclass
class Log:
    """Collects events in any order and numbers them by writer at the end."""

    lines: list[tuple[float, int, type[ev.Event], str, dict[str, Any]]] = field(default_factory=list)

    def write(self, at_s: float, pid: int, kind: type[ev.Event], arm: str, **fields: Any) -> None:
        """Note one event."""
        self.lines.append((at_s, pid, kind, arm, fields))

    def events(self) -> tuple[ev.Event, ...]:
        """All events in order of time."""
        seqs: dict[int, int] = {}
        found = []
        for at_s, pid, kind, arm, fields in sorted(self.lines, key=lambda line: line[0]):
            seq = seqs.setdefault(pid, 0)
            seqs[pid] += 1
            found.append(kind(at_ns=ns(at_s), host="host", pid=pid, seq=seq, arm=arm, repetition=0, **fields))
        return tuple(found)


def ns(at_s: float) -> int:
    """Nanoseconds of a moment in seconds."""
    return round(at_s * 1e9)


def event(kind: type[E], at_s: float, arm: str = "tier", **fields: Any) -> E:
    """One event by hand."""
    return kind(at_ns=ns(at_s), host="host", pid=fields.pop("pid", ENGINE), seq=0, arm=arm, repetition=0, **fields)


def schedule(seed: int, documents: int, chats: int) -> list[Planned]:
    """Fill of 14 documents before zero, then two classes over a minute and a half."""
    draw = np.random.default_rng(seed)
    lengths = [int(draw.integers(448, 641)) for _ in range(14)]
    plan = [Planned(i, "long_doc", -16.0 + i, lengths[i], 1, f"fill{i}", i, False) for i in range(14)]
    times = np.sort(draw.uniform(0, 90, documents))
    for k, at_s in enumerate(times):
        doc = int(draw.integers(0, 14))
        plan.append(Planned(14 + k, "long_doc", float(at_s), lengths[doc] + 24, 16, f"doc{doc}q{k % 2}", doc))
    for k, at_s in enumerate(np.sort(draw.uniform(0, 90, chats))):
        tokens = int(draw.integers(40, 90))
        plan.append(Planned(14 + documents + k, "short_chat", float(at_s), tokens, 16, f"chat{k}"))
    return sorted(plan, key=lambda one: one.at_s)


def answer(key: str, tokens: int) -> list[int]:
    """The made-up right answer of a prompt."""
    first = sum(key.encode()) * 7
    return [(first + 31 * k) % 500 for k in range(tokens)]


class Engine:
    """Plays one arm into a log."""

    def __init__(self, log: Log, arm: ArmFacts, zero_s: float, first_step: int) -> None:
        self.log, self.arm, self.zero_s, self.step = log, arm, zero_s, first_step
        self.memory: list[int] = []
        self.loads = 0
        self.fault = arm.faults[0] if arm.faults else None

    def probe(self, at_s: float, kind: type[ev.Event], **fields: Any) -> None:
        """An event of the probe, which an arm without one does not have."""
        if self.arm.probed:
            self.log.write(self.zero_s + at_s, ENGINE, kind, self.arm.name, **fields)

    def play(self, plan: list[Planned]) -> None:
        """Admit, step, finish, until all are answered."""
        arriving = list(plan)
        ready: list[tuple[float, int, Live]] = []
        running: list[Live] = []
        now_s = plan[0].at_s
        while arriving or ready or running:
            while arriving and (arriving[0].at_s <= now_s or not (ready or running)):
                one = arriving.pop(0)
                live, ready_s = self.admit(one)
                heapq.heappush(ready, (ready_s, one.index, live))
            if not running and ready:
                now_s = max(now_s, ready[0][0])
            while ready and ready[0][0] <= now_s and len(running) < 8:
                running.append(heapq.heappop(ready)[2])
            if running:
                now_s = self.engine_step(now_s, running)

    def engine_step(self, now_s: float, running: list[Live]) -> float:
        """Compute one batch; a request that has its last token leaves."""
        budget, work, prefill = 512, [], 0
        for live in sorted(running, key=lambda one: one.position < one.planned.prompt):
            left = live.planned.prompt - live.position
            tokens = min(left, budget) if left > 0 else min(1, budget)
            if tokens > 0:
                work.append((live, live.position, tokens))
                budget -= tokens
                prefill += max(0, min(left, tokens))
        self.probe(
            now_s + 1e-5, ev.StepScheduled, step=self.step, total_tokens=512 - budget,
            work=[(live.request_id, start, tokens) for live, start, tokens in work],
        )
        self.step += 1
        ends_s = now_s + 0.012 + 0.0012 * prefill + 0.004 * len(work)
        for live, start, tokens in work:
            live.position = start + tokens
            if live.position >= live.planned.prompt:
                live.token_at_s.append(ends_s)
            if len(live.token_at_s) == live.planned.output:
                running.remove(live)
                self.finish(live)
        return ends_s

    def admit(self, one: Planned) -> tuple[Live, float]:
        """Look up, perhaps load, perhaps be struck; return when the engine can compute."""
        request_id = f"{RUN}.{self.arm.name}.0.{one.index}"
        whole = one.prompt // BLOCK * BLOCK if one.document is not None else 0
        local = min(whole, (one.prompt - 1) // BLOCK * BLOCK) if one.document in self.memory else 0
        if one.document is not None:
            self.memory = [*(doc for doc in self.memory if doc != one.document), one.document][-2:]
        promised = whole - local if self.arm.tier != "none" and one.measured else 0
        at_s = one.at_s + 0.004
        live = Live(one, request_id, local, local, local)
        if not promised:
            self.looked_up(live, at_s, at_s + 0.008, 0)
            return live, at_s + 0.009
        self.loads += 1
        struck = self.fault is not None and self.loads % 3 == 0
        return live, self.load(live, at_s, promised, self.fault if struck else None)

    def looked_up(self, live: Live, asked_s: float, at_s: float, promised: int, attempt: int = 1) -> None:
        """LOOKUP."""
        self.probe(
            at_s, ev.KvLookup, request_id=live.request_id, attempt=attempt, prompt_tokens=live.planned.prompt,
            local_tokens=live.local, promised_tokens=promised, tier_tokens=promised, is_async=True,
            first_asked_at_ns=ns(self.zero_s + asked_s), answered_at_ns=ns(self.zero_s + at_s),
        )

    def load(self, live: Live, asked_s: float, promised: int, fault: FaultFacts | None) -> float:
        """RESERVE, LOAD, COMPLETE, with what a fault does to them."""
        at_s, held = asked_s + 0.008, fault is not None and fault.fault_kind in ("hold", "evict")
        if fault is not None and held:
            self.applied(at_s, fault, live, "lookup", "began", None)
            at_s += HOLD_S
            self.applied(at_s, fault, live, "lookup", "ended", HOLD_S)
        self.looked_up(live, asked_s, at_s + 0.0002, promised)
        blocks = promised // BLOCK
        size, began_s = promised * KV_BYTES, at_s + 0.002
        same = {"request_id": live.request_id, "attempt": 1, "blocks": blocks}
        self.probe(at_s + 0.001, ev.KvReserve, request_id=live.request_id, attempt=1, tokens=promised, blocks=blocks)
        self.probe(began_s, ev.KvLoadBegan, **same, load_bytes=size, path="memory")
        transfer_s = size / RATE * (1.4 + 0.1 * (live.planned.index % 5))
        ended_s = began_s + transfer_s
        reason = ""
        if fault is not None and fault.fault_kind == "evict":
            reason = "load_error"
            self.log.write(
                self.zero_s + began_s - 0.01, INJECTOR, ev.FaultFired, self.arm.name, fault=fault.fault,
                request_id=live.request_id, evidence=f"the tier deleted {blocks} objects, and misses them now",
            )
        elif fault is not None and fault.fault_kind == "slow_load":
            reason = "deadline"
            self.applied(ended_s, fault, live, "complete", "began", None)
            ended_s = asked_s + DEADLINE_S + 0.01
            self.applied(ended_s, fault, live, "complete", "ended", ended_s - began_s)
        self.probe(
            ended_s + 0.0001, ev.KvLoadEnded, **same, ok=not reason, failed_blocks=blocks if reason else 0,
            load_bytes=size, path="memory", reason=reason, began_at_ns=ns(self.zero_s + began_s),
            transfer_ended_at_ns=ns(self.zero_s + began_s + transfer_s), transfer_s=None if reason else transfer_s,
        )
        if reason and not live.local:
            self.looked_up(live, ended_s + 0.001, ended_s + 0.002, 0, attempt=2)
        if not reason:
            # A full hit leaves the last token to compute, to have logits.
            live.start = live.position = min(live.local + promised, live.planned.prompt - 1)
        return ended_s + 0.003

    def applied(
        self, at_s: float, fault: FaultFacts, live: Live, stage: str, phase: str, held_s: float | None,
    ) -> None:
        """What the probe says of a fault."""
        self.probe(
            at_s, ev.FaultApplied, fault=fault.fault, request_id=live.request_id, stage=stage, phase=phase,
            held_s=held_s,
        )

    def finish(self, live: Live) -> None:
        """The client's view of a complete answer."""
        one, due_s = live.planned, self.zero_s + live.planned.at_s
        sent_s = due_s + 0.0004 + 0.0001 * (one.index % 7)
        arrived = [ns(self.zero_s + at_s + 0.001) for at_s in live.token_at_s]
        ids = answer(one.key, one.output)
        if self.arm.name == "held" and one.index == 20:
            ids = [*ids[:9], *(501 + k for k in range(one.output - 9))]
        self.log.write(
            sent_s + 0.0002, CLIENT, ev.RequestSent, self.arm.name, request_id=live.request_id,
            scheduled_at_ns=ns(due_s), sent_at_ns=ns(sent_s),
        )
        self.log.write(
            arrived[-1] / 1e9 + 0.0005, CLIENT, ev.RequestEnded, self.arm.name, request_id=live.request_id,
            outcome="ok", reason="", scheduled_at_ns=ns(due_s), ended_at_ns=arrived[-1] + 400_000,
            sent_at_ns=ns(sent_s), first_byte_at_ns=arrived[0], first_token_at_ns=arrived[0],
            last_token_at_ns=arrived[-1],
            chunk_at_ns=arrived, chunk_tokens=[1] * len(arrived), token_ids=ids, finish_reason="length",
            http_status=200,
            usage_prompt_tokens=one.prompt, usage_output_tokens=one.output, usage_cached_tokens=live.start,
        )


def frame(log: Log, arm: ArmFacts, zero_s: float, plan: list[Planned]) -> None:
    """What the conductor, the injector and the planner write of an arm."""
    tiered = arm.tier != "none"
    log.write(
        zero_s - 20, CONDUCTOR, ev.TierReset, arm.name, canary_tokens=256, before_local_tokens=0 if tiered else 256,
        before_promised_tokens=256 if tiered else None, after_local_tokens=0,
        after_promised_tokens=0 if tiered else None, saves_in_flight=0, proven=True,
    )
    log.write(
        zero_s - 19, CONDUCTOR, ev.ArmBegan, arm.name, zero_at_ns=ns(zero_s), probed=arm.probed,
        policy=arm.policy if arm.probed else "none",
    )
    for one in arm.faults:
        log.write(
            zero_s - 18.5, INJECTOR, ev.FaultArmed, arm.name, fault=one.fault, fault_kind=one.fault_kind, target="tier",
            trigger=one.trigger,
        )
        log.write(zero_s + 99, INJECTOR, ev.FaultHealed, arm.name, fault=one.fault, verified=True)
    for number, request in enumerate(plan):
        log.write(
            zero_s - 18 + number * 1e-4, CLIENT, ev.RequestPlanned, arm.name,
            request_id=f"{RUN}.{arm.name}.0.{request.index}", index=request.index, traffic_class=request.traffic_class,
            scheduled_at_s=request.at_s, prompt_tokens=request.prompt, max_tokens=request.output, stop="natural",
            timeout_s=60.0, prompt_key=request.key, measured=request.measured, document=request.document,
            hit_tokens=request.prompt if request.document is not None and request.measured else 0,
        )
    log.write(
        zero_s + 99.5, CLIENT, ev.DriveEnded, arm.name, zero_at_ns=ns(zero_s), ended_at_ns=ns(zero_s + 99.5), workers=1,
        client_cpu_s=3.98, loop_stall_max_s=0.031, loop_stall_count=40, loop_stall_limit_s=0.005, peak_open=7,
        interrupted=False,
    )
    log.write(zero_s + 100, CONDUCTOR, ev.ArmEnded, arm.name, complete=True)


@cache
def demo_run(seed: int = 7, documents: int = 28, chats: int = 26) -> Run:
    """A whole run in which every check passes; the same object each time, for nothing in it changes."""
    return made_run(seed, documents, chats)


def made_run(seed: int = 7, documents: int = 28, chats: int = 26) -> Run:
    """The run, made anew."""
    plan, log, step = schedule(seed, documents, chats), Log(), 0
    for number, arm in enumerate(arms()):
        zero_s = 1000.0 + 200 * number
        frame(log, arm, zero_s, plan)
        engine = Engine(log, arm, zero_s, step)
        engine.play(plan)
        step = engine.step if arm.probed else step
    golden = {}
    for one in plan:
        ids = answer(one.key, one.output)
        gaps = [0.01 if k == 9 else 1.5 for k in range(one.output)]
        golden[one.key] = GoldenAnswer(
            token_ids=ids, second_ids=[501] * one.output, gaps_nats=gaps, finish_reason="length",
        )
    return Run(manifest(), Journal(log.events()), golden)


def without(run: Run, drop: Callable[[ev.Event], bool]) -> Run:
    """The run less some events."""
    return replace(run, journal=replace(run.journal, events=tuple(one for one in run.journal.events if not drop(one))))


def changed(run: Run, pick: Callable[[ev.Event], bool], **fields: Any) -> Run:
    """The run with some fields of some events replaced."""
    found = tuple(msgspec.structs.replace(one, **fields) if pick(one) else one for one in run.journal.events)
    return replace(run, journal=replace(run.journal, events=found))


def added(run: Run, *more: ev.Event) -> Run:
    """The run with more events."""
    found = tuple(sorted((*run.journal.events, *more), key=lambda one: one.at_ns))
    return replace(run, journal=replace(run.journal, events=found))


def with_facts(run: Run, **fields: Any) -> Run:
    """The run with some facts of its manifest replaced."""
    return replace(run, manifest=msgspec.structs.replace(run.manifest, **fields))


def first(run: Run, kind: type[E], arm: str, **fields: Any) -> E:
    """The first event of a kind in an arm with these fields."""
    return next(
        one for one in run.journal.select(kind, arm)
        if all(getattr(one, name) == value for name, value in fields.items())
    )
