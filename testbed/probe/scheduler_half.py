"""The probe on the scheduler side: LOOKUP and RESERVE, each engine step, and the guard before a load begins.

It asks the real connector and may answer less than that did (a miss), or later ("ask me again"), never more. A request
that is held here holds nobody else: the engine goes on with all others.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from testbed.journal.events import FaultApplied, KvAborted, KvLookup, KvReserve, KvSaved, StepScheduled
from testbed.probe.identity import our_id
from testbed.probe.orders import Aim, Orders
from testbed.probe.record import Record
from testbed.probe.ways import Way

RELEASE_LIMIT_S = 5.0
Answer = tuple[int | None, bool]


@dataclass(frozen=True)
class LoadOrder:
    """What the worker side must know of one load; travels with the connector's own metadata.

    A load that is not `is_async` is over within the engine step in which it begins, and nobody reports its end. The
    bytes of one in the `background` move while the engine goes on. `path` is empty where the connector has one only.
    """

    request_id: str
    attempt: int
    block_ids: tuple[int, ...]
    deadline_at_ns: int | None
    slow_s: float
    slow_fault: str
    corrupt: str
    corrupt_fault: str
    is_async: bool = True
    path: str = ""
    background: bool = False


@dataclass
class Lookup:
    """How far one request has come on the scheduler side."""

    request_id: str
    first_asked_at_ns: int
    attempt: int = 1
    answered: tuple[int, int] | None = None
    is_async: bool = True
    kept: tuple[int, bool] | None = None
    kept_local: int = 0
    hold: Aim | None = None
    held_since_ns: int = 0
    strikes: list[Aim] = field(default_factory=list)
    block_ids: tuple[int, ...] = ()
    reserved: bool = False
    received: bool = False
    load_failed: bool = False
    failures: int = 0
    gave_up: bool = False


class SchedulerHalf:
    """Keeps a `Lookup` per request, by the engine's id."""

    def __init__(self, record: Record, block_size: int, workers: int = 1) -> None:
        self._record = record
        self._block_size = block_size
        self._workers = workers
        self._lookups: dict[str, Lookup] = {}
        self._loads: dict[str, LoadOrder] = {}
        self._seen: dict[tuple[str, int, str], int] = {}
        self._struck: dict[tuple[str, int, str], int] = {}
        self._saving: dict[int, tuple[str, int]] = {}
        self._step = 0

    def lookup(self, request: Any, local_tokens: int, ask: Callable[[], Answer]) -> Answer:
        """Answer the scheduler's question how many tokens can be loaded beyond `local_tokens`.

        `ask` puts the question to the real connector; it is always asked first, so that its own state moves on.
        """
        orders = self._record.orders()
        now_ns = time.monotonic_ns()
        state = self._lookups.get(request.request_id)
        if state is None:
            state = self._lookups[request.request_id] = Lookup(our_id(request.request_id), now_ns)
        if state.reserved:
            self._begin_attempt(state, now_ns)
        if state.hold is not None:
            return self._while_held(state, request, local_tokens, ask, orders)
        answer = ask()
        if answer[0] is None:
            if self._too_late(state, orders, now_ns):
                return self._settle(state, request, local_tokens, (0, False), 0, "deadline")
            return answer
        return self._first_answer(state, request, local_tokens, (answer[0], answer[1]), orders)

    def _begin_attempt(self, state: Lookup, now_ns: int) -> None:
        """A request is asked about again after its blocks were reserved: its load failed, or it was preempted."""
        state.attempt += 1
        state.first_asked_at_ns = now_ns
        state.answered = None
        state.reserved = state.received = state.load_failed = state.gave_up = False
        state.strikes = []

    def _first_answer(
        self, state: Lookup, request: Any, local_tokens: int, answer: tuple[int, bool], orders: Orders
    ) -> Answer:
        tokens = answer[0]
        if tokens and state.failures >= orders.attempts:
            return self._settle(state, request, local_tokens, (0, False), tokens, "attempts")
        if tokens and (state.gave_up or self._too_late(state, orders, time.monotonic_ns())):
            return self._settle(state, request, local_tokens, (0, False), tokens, "deadline")
        if tokens and state.answered is None and self._strike(state, orders):
            state.kept, state.kept_local = answer, local_tokens
            return None, True
        return self._settle(state, request, local_tokens, answer, tokens, "")

    def _strike(self, state: Lookup, orders: Orders) -> bool:
        """Choose the aims that strike this load; True if one of them holds it now."""
        for aim in orders.armed():
            if aim.requests and state.request_id not in aim.requests:
                continue
            key = (orders.arm, orders.repetition, aim.fault)
            self._seen[key] = number = self._seen.setdefault(key, 0) + 1
            struck = self._struck.setdefault(key, 0)
            chosen = number == aim.nth if aim.nth is not None else number % (aim.every or 1) == 0
            if chosen and (aim.times is None or struck < aim.times):
                self._struck[key] = struck + 1
                state.strikes.append(aim)
                if aim.action == "hold":
                    state.hold, state.held_since_ns = aim, time.monotonic_ns()
                    self._applied(aim, state, "lookup", "began", None)
        return state.hold is not None

    def _while_held(
        self, state: Lookup, request: Any, local_tokens: int, ask: Callable[[], Answer], orders: Orders
    ) -> Answer:
        """Keep saying "ask me again" until the hold is over; then the kept promise, used once."""
        aim, kept = state.hold, state.kept
        if aim is None or kept is None:
            return ask()
        held_s = (time.monotonic_ns() - state.held_since_ns) / 1e9
        if self._too_late(state, orders, time.monotonic_ns()):
            self._let_go(state, aim, held_s, "deadline")
            return self._settle(state, request, local_tokens, (0, False), kept[0], "deadline")
        waits = aim.await_release and state.request_id not in orders.released and held_s < aim.seconds + RELEASE_LIMIT_S
        if aim in orders.armed() and (held_s < aim.seconds or waits):
            return None, True
        self._let_go(state, aim, held_s, "ended")
        # The engine's own cache may have changed meanwhile; then only the real connector knows what is left to load.
        fresh = kept if local_tokens == state.kept_local else ask()
        if fresh[0] is None:
            return fresh
        return self._settle(state, request, local_tokens, fresh, fresh[0], "")

    def _let_go(self, state: Lookup, aim: Aim, held_s: float, phase: str) -> None:
        state.hold = None
        self._applied(aim, state, "lookup", phase, held_s)

    def _applied(self, aim: Aim, state: Lookup, stage: str, phase: str, held_s: float | None) -> None:
        self._record.write(
            FaultApplied, fault=aim.fault, request_id=state.request_id, stage=stage, phase=phase, held_s=held_s
        )

    def _too_late(self, state: Lookup, orders: Orders, now_ns: int) -> bool:
        limit_s = orders.load_deadline_s
        return limit_s is not None and now_ns - state.first_asked_at_ns > limit_s * 1e9

    def _settle(
        self, state: Lookup, request: Any, local_tokens: int, answer: Answer, tier_tokens: int, reason: str
    ) -> Answer:
        """Give the scheduler its answer, and journal it when it is another than before."""
        promised = answer[0]
        if promised is None:
            return answer
        if reason == "deadline":
            state.gave_up = True
        state.is_async = answer[1]
        if state.answered != (local_tokens, promised):
            state.answered = (local_tokens, promised)
            self._record.write(
                KvLookup,
                request_id=state.request_id,
                attempt=state.attempt,
                prompt_tokens=request.num_prompt_tokens,
                local_tokens=local_tokens,
                promised_tokens=promised,
                tier_tokens=tier_tokens,
                is_async=answer[1],
                first_asked_at_ns=state.first_asked_at_ns,
                answered_at_ns=time.monotonic_ns(),
                reason=reason,
            )
        return answer

    def reserved(self, request: Any, blocks: Any, tokens: int, way: Way | None = None) -> None:
        """The engine has allocated blocks; `tokens` of them are to be loaded (0 for none), that `way`."""
        state = self._lookups.get(request.request_id)
        if state is None or not tokens:
            return
        orders = self._record.orders()
        state.reserved, state.received = True, not state.is_async
        local_tokens = state.answered[0] if state.answered else 0
        first = local_tokens // self._block_size
        last = -(-(local_tokens + tokens) // self._block_size)
        ids = tuple(blocks.get_block_ids()[0][first:last])
        state.block_ids = ids
        slow = next((aim for aim in state.strikes if aim.action == "slow"), None)
        corrupt = next((aim for aim in state.strikes if aim.action == "corrupt"), None)
        deadline_s = orders.load_deadline_s
        self._loads[request.request_id] = LoadOrder(
            request_id=state.request_id,
            attempt=state.attempt,
            block_ids=ids,
            deadline_at_ns=None if deadline_s is None else state.first_asked_at_ns + int(deadline_s * 1e9),
            slow_s=slow.seconds if slow else 0.0,
            slow_fault=slow.fault if slow else "",
            corrupt=corrupt.pattern if corrupt else "",
            corrupt_fault=corrupt.fault if corrupt else "",
            is_async=state.is_async,
            path=way.path if way else "",
            background=way.background if way else False,
        )
        self._record.write(
            KvReserve, request_id=state.request_id, attempt=state.attempt, tokens=tokens, blocks=len(ids)
        )

    def step(self, scheduled: Any) -> dict[str, LoadOrder]:
        """Journal one engine step; return the loads that the worker side is to begin in it."""
        loads, self._loads = self._loads, {}
        # A step that only takes blocks away schedules nothing, and must be told all the same.
        if scheduled.total_num_scheduled_tokens or scheduled.preempted_req_ids:
            self._record.write(
                StepScheduled,
                step=self._step,
                total_tokens=scheduled.total_num_scheduled_tokens,
                work=_work(scheduled),
                preempted=[our_id(one) for one in scheduled.preempted_req_ids or ()],
            )
            self._step += 1
        return loads

    def ended(self, received: set[str], failed: set[str], invalid_blocks: set[int]) -> None:
        """The worker side has reported loads as ended, some of them as failed, as a whole or by their blocks.

        Failed blocks may be told of before the end, and of a load that is not asynchronous nothing else is told.
        """
        for state in self._lookups.values() if invalid_blocks else ():
            on_its_way = state.reserved and not (state.received and state.is_async)
            if on_its_way and not invalid_blocks.isdisjoint(state.block_ids):
                self._count_failure(state)
        for engine_id in received:
            ended = self._lookups.get(engine_id)
            if ended is not None and ended.reserved and not ended.received:
                ended.received = True
                if engine_id in failed:
                    self._count_failure(ended)

    def _count_failure(self, state: Lookup) -> None:
        """Once for each attempt, in however many pieces its failure is told."""
        if not state.load_failed:
            state.load_failed = True
            state.failures += 1

    def saving(self, jobs: Mapping[int, str]) -> None:
        """The connector has begun to save: the number of each job, and the engine's id of its request."""
        self._saving |= {job: (engine_id, self._workers) for job, engine_id in jobs.items()}

    def saved(self, jobs: Mapping[int, int]) -> None:
        """So many workers have ended these jobs; when all have, the blocks that they read are free."""
        for job, workers in jobs.items():
            if job not in self._saving:
                continue
            engine_id, left = self._saving.pop(job)
            if left > workers:
                self._saving[job] = (engine_id, left - workers)
            else:
                self._record.write(KvSaved, request_id=our_id(engine_id))

    def finished(self, request: Any) -> None:
        """The request is over; if its KV was still on the way, that is an abort."""
        state = self._lookups.pop(request.request_id, None)
        self._loads.pop(request.request_id, None)
        if state is None:
            return
        if state.hold is not None:
            self._let_go(state, state.hold, (time.monotonic_ns() - state.held_since_ns) / 1e9, "aborted")
        if state.answered is None or (state.reserved and not state.received):
            stage = "load" if state.reserved else "lookup"
            self._record.write(KvAborted, request_id=state.request_id, attempt=state.attempt, stage=stage)


def _work(scheduled: Any) -> list[tuple[str, int, int]]:
    """(our id, first position, tokens) of each request in a step."""
    counts = scheduled.num_scheduled_tokens
    cached = scheduled.scheduled_cached_reqs
    starts = [(one.req_id, one.num_computed_tokens) for one in scheduled.scheduled_new_reqs]
    starts += list(zip(cached.req_ids, cached.num_computed_tokens, strict=True))
    return [(our_id(engine_id), start, counts[engine_id]) for engine_id, start in starts if engine_id in counts]
