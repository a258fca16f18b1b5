"""The recompute ledger: for each prompt position, how the engine came by its KV.

With a probe, `computed` is the sum of the scheduler's own steps, never a difference. Without one, an arm has only the
counters of the answers: its ledger says so in `source`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from testbed.journal.events import Event, KvLoadBegan, KvLoadEnded, KvLookup, StepScheduled
from testbed.journal.run import Run
from testbed.metrics.account import Account, Attempt
from testbed.metrics.requests import RequestRow, prefix_of
from testbed.missing import Missing


@dataclass(frozen=True)
class Ledger:
    """Tokens of one request. `local`, `loaded` and `computed` are final sources and add up to the prompt.

    `recomputed_after_failure` are tokens computed because a load failed: those that it had promised, and with
    synchronous loads those that had been computed upon it (`repeated_after_failure`). After a preemption, or for the
    last token of a full hit, a position is worked on although it has a source already. `scheduled` counts all work.
    """

    source: Literal["steps", "counters"]
    prompt_tokens: int
    local: int
    loaded: int
    computed: int
    promised: int = 0
    lost: int = 0
    found_after_failure: int = 0
    recomputed_after_failure: int = 0
    repeated_after_failure: int = 0
    recomputed_after_preemption: int = 0
    recomputed_last_token: int = 0
    overrun: int = 0
    scheduled: int = 0
    attempts: tuple[Attempt, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def failed_loads(self) -> tuple[Attempt, ...]:
        """The attempts whose load failed."""
        return tuple(attempt for attempt in self.attempts if attempt.load == "failed")


@dataclass(frozen=True)
class Ledgers:
    """All ledgers by request id, and what is wrong with the steps themselves."""

    by_id: Mapping[str, Ledger | Missing]
    problems: tuple[str, ...]


def build_ledgers(run: Run, rows: Iterable[RequestRow]) -> Ledgers:
    """Account for each planned request in one pass over the journal."""
    probed = {arm.name: arm.probed for arm in run.manifest.arms}
    counted = {row.request_id: row for row in rows}
    block_size = run.manifest.block_size  # None where the engine is not ours, and then there is no probe
    accounts = {
        one: Account(row.planned.prompt_tokens, block_size)
        for one, row in counted.items() if block_size is not None and probed.get(row.arm, False)
    }
    problems = _play(run.journal.events, accounts, _OfArms(run))
    by_id: dict[str, Ledger | Missing] = {
        one: _closed(accounts[one], row) if one in accounts else _from_counters(row) for one, row in counted.items()
    }
    return Ledgers(by_id, tuple(problems))


class _OfArms:
    """Tells whether an id names a request of an arm, which must have been planned; canaries have not."""

    def __init__(self, run: Run) -> None:
        self._run = run.manifest.run
        self._arms = {arm.name for arm in run.manifest.arms}

    def __contains__(self, request_id: str) -> bool:
        return prefix_of(request_id, self._run) in self._arms


def _play(events: Iterable[Event], accounts: dict[str, Account], of_arms: _OfArms) -> list[str]:
    problems: list[str] = []
    steps: dict[tuple[str, int], list[int]] = {}
    for event in events:
        if isinstance(event, StepScheduled):
            steps.setdefault((event.host, event.pid), []).append(event.step)
            problems += _play_step(event, accounts, of_arms)
        elif isinstance(event, KvLookup | KvLoadBegan | KvLoadEnded) and event.request_id in accounts:
            account = accounts[event.request_id]
            if isinstance(event, KvLookup):
                account.looked_up(event)
            elif isinstance(event, KvLoadBegan):
                account.load_began(event)
            else:
                account.load_ended(event)
    return problems + [problem for engine, numbers in steps.items() for problem in _gaps(engine[1], numbers)]


def _play_step(event: StepScheduled, accounts: dict[str, Account], of_arms: _OfArms) -> list[str]:
    for one in event.preempted:
        if one in accounts:
            accounts[one].preempted()
    problems: list[str] = []
    total = 0
    for one, start, tokens in event.work:
        total += tokens
        if one in accounts:
            accounts[one].work(start, tokens)
        elif one in of_arms:
            problems.append(f"step {event.step} works on {one}, which was not planned in an arm with a probe")
    if total != event.total_tokens:
        said = f"work adds up to {total}, the scheduler says {event.total_tokens}"
        problems.append(f"step {event.step} of pid {event.pid}: {said}")
    return problems


def _gaps(pid: int, numbers: list[int]) -> list[str]:
    """Steps of one engine that are missing or there twice."""
    present = sorted(set(numbers))
    problems = [
        f"steps {before + 1} to {after - 1} of pid {pid} are missing"
        for before, after in pairwise(present) if after != before + 1
    ]
    if len(present) != len(numbers):
        problems.append(f"{len(numbers) - len(present)} steps of pid {pid} are there twice")
    return problems


def _closed(account: Account, row: RequestRow) -> Ledger | Missing:
    if not account.scheduled_tokens and not row.ok:
        return Missing("the engine never worked on it")
    overrun = 0
    if row.ok:
        output_tokens = row.output_tokens
        stopped = row.ended is not None and row.ended.finish_reason == "stop"
        if output_tokens is None:
            account.problems.append("the length of its answer is not known")
        else:
            overrun = account.close(output_tokens, stopped)
    attempts = tuple(account.attempts)
    return Ledger(
        source="steps", prompt_tokens=account.prompt_tokens,
        local=account.total("local"), loaded=account.total("loaded"), computed=account.total("computed"),
        promised=sum(attempt.promised_tokens for attempt in attempts),
        lost=sum(attempt.lost_tokens for attempt in attempts),
        found_after_failure=sum(attempt.found_tokens for attempt in attempts),
        recomputed_after_failure=account.recomputed_after_failure,
        repeated_after_failure=account.repeated_after_failure,
        recomputed_after_preemption=account.recomputed_after_preemption,
        recomputed_last_token=account.recomputed_last_token,
        overrun=overrun, scheduled=account.scheduled_tokens, attempts=attempts, problems=tuple(account.problems),
    )


def _from_counters(row: RequestRow) -> Ledger | Missing:
    ended = row.ended
    if ended is None or not row.ok:
        return Missing("no complete answer, so no counters")
    if ended.usage_prompt_tokens is None or ended.usage_cached_tokens is None:
        return Missing("the answer carries no count of cached tokens")
    planned = row.planned.prompt_tokens
    problems = () if ended.usage_prompt_tokens == planned else (
        f"the engine counted {ended.usage_prompt_tokens} prompt tokens, {planned} were planned",)
    # Counters know no steps: what was not cached must have been computed, and nothing more can be said.
    computed = ended.usage_prompt_tokens - ended.usage_cached_tokens
    return Ledger("counters", planned, ended.usage_cached_tokens, 0, computed, problems=problems)
