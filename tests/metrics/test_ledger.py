"""The recompute ledger of single requests, each lifecycle by hand."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.journal.events import (
    Event,
    KvLoadBegan,
    KvLoadEnded,
    KvLookup,
    RequestEnded,
    RequestPlanned,
    StepScheduled,
)
from testbed.journal.reader import Journal
from testbed.journal.run import Run
from testbed.metrics.analysis import Analysis
from testbed.metrics.ledger import Ledger
from testbed.missing import Missing
from tests.synthetic import demo_run, event, manifest, ns, without

ONE = "demo-20260101-120000.tier.0.1"
PROMPT = 300
BLOCK = 128


def planned(prompt: int = PROMPT) -> RequestPlanned:
    """A request of the plan."""
    return event(
        RequestPlanned, 0.0, request_id=ONE, index=1, traffic_class="c", scheduled_at_s=0.0, prompt_tokens=prompt,
        max_tokens=3, stop="natural", timeout_s=9.0, prompt_key="k", measured=True,
    )


def ended(output: int = 3, **fields: Any) -> RequestEnded:
    """Its complete answer."""
    facts = {"outcome": "ok", "reason": "", "finish_reason": "length", "usage_output_tokens": output}
    return event(
        RequestEnded, 50.0, request_id=ONE, scheduled_at_ns=0, ended_at_ns=ns(50.0), **{**facts, **fields},
    )


def lookup(at_s: float, local: int, promised: int, attempt: int = 1, reason: str = "") -> KvLookup:
    """LOOKUP."""
    return event(
        KvLookup, at_s, request_id=ONE, attempt=attempt, prompt_tokens=PROMPT, local_tokens=local,
        promised_tokens=promised, tier_tokens=promised, is_async=True, first_asked_at_ns=ns(at_s),
        answered_at_ns=ns(at_s), reason=reason,
    )


def load(at_s: float, blocks: int, failed: int = 0, attempt: int = 1) -> list[Event]:
    """LOAD and COMPLETE."""
    same: dict[str, Any] = {"request_id": ONE, "attempt": attempt, "blocks": blocks, "load_bytes": 9, "path": "memory"}
    return [
        event(KvLoadBegan, at_s, **same),
        event(
            KvLoadEnded, at_s + 0.5, **same, ok=not failed, failed_blocks=failed,
            reason="load_error" if failed else "",
        ),
    ]


def steps(at_s: float, *work: tuple[int, int], first: int = 0, preempted: int | None = None) -> list[Event]:
    """One step for each (start, tokens); the request is preempted in step number `preempted`."""
    return [
        event(
            StepScheduled, at_s + 0.1 * k, step=first + k, total_tokens=tokens, work=[(ONE, start, tokens)],
            preempted=[ONE] if preempted == k else [],
        )
        for k, (start, tokens) in enumerate(work)
    ]


def run_of(*events: Event) -> Run:
    """A run of one request."""
    return Run(manifest(), Journal(tuple(sorted(events, key=lambda one: one.at_ns))), {})


def ledger_of(*events: Event) -> Ledger:
    """The ledger of the one request."""
    found = Analysis(run_of(*events)).ledgers.by_id[ONE]
    assert isinstance(found, Ledger)
    return found


def test_a_miss_is_computed_from_the_start() -> None:
    # prompt 300 in steps of 200 and 100; answer of 3 tokens: positions 300 and 301 are fed back, the last never
    found = ledger_of(planned(), ended(), lookup(1, 0, 0), *steps(2, (0, 200), (200, 100), (300, 1), (301, 1)))
    assert (found.local, found.loaded, found.computed) == (0, 0, 300)
    assert (found.scheduled, found.recomputed_after_failure, found.problems) == (302, 0, ())


def test_a_hit_is_local_then_loaded_then_computed() -> None:
    # 128 held, 128 promised and loaded, so 300 - 256 = 44 to compute
    found = ledger_of(
        planned(), ended(), lookup(1, 128, 128), *load(1.1, 1), *steps(2, (256, 44), (300, 1), (301, 1)),
    )
    assert (found.local, found.loaded, found.computed) == (128, 128, 44)
    assert (found.promised, found.lost, found.problems) == (128, 0, ())


def test_a_failed_load_is_computed_and_counted_apart() -> None:
    # 256 promised, both blocks failed: all 300 computed, 256 of them because the load failed
    found = ledger_of(
        planned(), ended(), lookup(1, 0, 256), *load(1.1, 2, failed=2), lookup(1.8, 0, 0, attempt=2),
        *steps(2, (0, 300), (300, 1), (301, 1)),
    )
    assert (found.local, found.loaded, found.computed) == (0, 0, 300)
    assert (found.promised, found.lost, found.recomputed_after_failure) == (256, 256, 256)
    assert found.problems == ()


def test_the_part_before_the_first_failed_block_is_kept() -> None:
    # 256 promised, the second block failed: 128 loaded, the engine goes on at 128 and computes 172, 128 of them lost
    found = ledger_of(
        planned(), ended(), lookup(1, 0, 256), *load(1.1, 2, failed=1), *steps(2, (128, 172), (300, 1), (301, 1)),
    )
    assert (found.loaded, found.computed, found.lost, found.recomputed_after_failure) == (128, 172, 128, 128)
    assert found.problems == ()


def test_using_more_of_a_load_than_came_is_a_problem() -> None:
    found = ledger_of(
        planned(), ended(), lookup(1, 0, 256), *load(1.1, 2, failed=2), *steps(2, (128, 172), (300, 1), (301, 1)),
    )
    assert any("128 of its tokens were used" in problem for problem in found.problems)
    # all 256 were lost, and only [128, 256) was computed
    assert (found.lost, found.recomputed_after_failure, found.loaded) == (256, 128, 0)


def test_lost_tokens_that_the_engine_then_holds_itself_are_found_not_recomputed() -> None:
    # asked again, 128 of the 256 lost ones are local by then; 300 - 128 = 172 computed, 128 of them lost
    found = ledger_of(
        planned(), ended(), lookup(1, 0, 256), *load(1.1, 2, failed=2), lookup(1.8, 128, 0, attempt=2),
        *steps(2, (128, 172), (300, 1), (301, 1)),
    )
    assert (found.local, found.computed) == (128, 172)
    assert (found.lost, found.found_after_failure, found.recomputed_after_failure) == (256, 128, 128)
    assert found.problems == ()


def test_work_upon_a_synchronous_load_that_failed_is_repeated() -> None:
    # the step [256, 300) ran before the failure was known: 44 wasted, then 300 computed, all because of the failure
    began, failed = load(1.1, 2, failed=2)
    late = event(
        KvLoadEnded, 2.5, request_id=ONE, attempt=1, blocks=2, load_bytes=9, path="memory", ok=False, failed_blocks=2,
        reason="load_error",
    )
    assert isinstance(failed, KvLoadEnded)
    found = ledger_of(
        planned(), ended(), lookup(1, 0, 256), began, *steps(2, (256, 44)), late,
        *steps(3, (0, 300), (300, 1), (301, 1), first=1),
    )
    assert (found.loaded, found.computed, found.repeated_after_failure) == (0, 300, 44)
    assert (found.recomputed_after_failure, found.scheduled, found.problems) == (300, 346, ())


def test_a_full_hit_still_computes_its_last_token() -> None:
    # 300 promised of 300: position 299 is loaded, and computed to have logits
    found = ledger_of(planned(), ended(), lookup(1, 0, 300), *load(1.1, 3), *steps(2, (299, 1), (300, 1), (301, 1)))
    assert (found.loaded, found.computed, found.recomputed_last_token) == (300, 0, 1)
    assert found.problems == ()


def test_a_preempted_request_computes_again_what_it_had() -> None:
    # [0, 300) and position 300, then preempted; starts again: 301 repeated, position 301 new
    found = ledger_of(
        planned(), ended(), lookup(1, 0, 0),
        *steps(2, (0, 300), (300, 1)), *steps(3, (0, 301), (301, 1), first=2, preempted=0),
    )
    assert (found.computed, found.recomputed_after_preemption, found.scheduled) == (300, 301, 603)
    assert found.problems == ()


def test_a_position_beyond_the_answer_is_a_problem_unless_a_stop_token_ended_it() -> None:
    # answer of 3 tokens ends at position 301; one step more may run ahead of a stop token
    work = steps(2, (0, 300), (300, 1), (301, 1), (302, 1))
    by_length = ledger_of(planned(), ended(), lookup(1, 0, 0), *work)
    by_stop = ledger_of(planned(), ended(finish_reason="stop"), lookup(1, 0, 0), *work)
    assert any("beyond" in problem for problem in by_length.problems)
    assert (by_stop.problems, by_stop.overrun) == ((), 1)


@pytest.mark.parametrize("dropped", range(4))
def test_dropping_any_step_of_a_request_is_a_problem(dropped: int) -> None:
    work = steps(2, (0, 200), (200, 100), (300, 1), (301, 1))
    del work[dropped]
    assert ledger_of(planned(), ended(), lookup(1, 0, 0), *work).problems


def test_work_twice_without_a_cause_is_a_problem() -> None:
    found = ledger_of(planned(), ended(), lookup(1, 0, 0), *steps(2, (0, 300), (0, 300), (300, 1), (301, 1)))
    assert any("twice" in problem for problem in found.problems)


def test_a_start_beyond_what_is_there_has_no_source() -> None:
    # 128 promised, nothing loaded
    found = ledger_of(planned(), ended(), lookup(1, 0, 128), *steps(2, (128, 172), (300, 1), (301, 1)))
    assert found.problems == ("positions [0, 128) have no source",)
    assert found.local + found.loaded + found.computed == 172


def test_a_load_that_never_ended_is_a_problem() -> None:
    found = ledger_of(
        planned(), ended(), lookup(1, 0, 128), load(1.1, 1)[0], *steps(2, (128, 172), (300, 1), (301, 1)),
    )
    assert "a load began and never ended" in found.problems


def test_an_arm_without_a_probe_has_counters_and_says_so() -> None:
    other = ONE.replace("tier", "no_tier")
    before, after = planned(), ended(usage_prompt_tokens=300, usage_cached_tokens=128)
    events = [_moved(before, other), _moved(after, other)]
    found = Analysis(run_of(*events)).ledgers.by_id[other]
    assert isinstance(found, Ledger)
    # 300 - 128 = 172, which counters can only say as a difference
    assert (found.source, found.local, found.computed) == ("counters", 128, 172)


def test_an_answer_without_cached_tokens_has_no_ledger() -> None:
    other = ONE.replace("tier", "no_tier")
    found = Analysis(run_of(_moved(planned(), other), _moved(ended(), other))).ledgers.by_id[other]
    assert found == Missing("the answer carries no count of cached tokens")


def _moved(one: Any, request_id: str) -> Event:
    moved = msgspec.structs.replace(one, request_id=request_id, arm="no_tier")
    assert isinstance(moved, Event)
    return moved


def test_a_gap_in_the_steps_and_a_wrong_sum_are_problems() -> None:
    work = steps(2, (0, 300), (300, 1), (301, 1))
    wrong = event(StepScheduled, 4.0, step=5, total_tokens=7, work=[])
    found = Analysis(run_of(planned(), ended(), lookup(1, 0, 0), *work, wrong)).ledgers.problems
    assert found == (
        "step 5 of pid 100: work adds up to 0, the scheduler says 7", "steps 3 to 4 of pid 100 are missing",
    )


def test_work_on_a_canary_is_no_problem_and_on_a_request_out_of_nowhere_is() -> None:
    canary = event(StepScheduled, 1.0, step=0, total_tokens=5, work=[("demo-20260101-120000.canary.0.0", 0, 5)])
    stray = event(StepScheduled, 2.0, step=1, total_tokens=5, work=[("demo-20260101-120000.tier.0.99", 0, 5)])
    assert Analysis(run_of(planned(), canary)).ledgers.problems == ()
    assert "not planned" in Analysis(run_of(planned(), canary, stray)).ledgers.problems[0]


@settings(max_examples=60)
@given(
    st.integers(0, 2), st.integers(0, 3), st.integers(0, 3), st.lists(st.integers(1, 200), min_size=1, max_size=12),
)
def test_sources_always_add_up_to_the_prompt(local: int, promised: int, failed: int, chunks: list[int]) -> None:
    # any split of the prompt into steps, any part of the load failed: local + loaded + computed = prompt
    prompt, failed = 700, min(failed, promised)
    kept = promised - failed if failed else promised
    start = (local + kept) * BLOCK
    work: list[tuple[int, int]] = []
    at = start
    for size in [*chunks, prompt]:
        size = min(size, prompt - at)
        if size:
            work.append((at, size))
            at += size
    found = Analysis(run_of(
        planned(prompt), ended(1), _prompt(lookup(1, local * BLOCK, promised * BLOCK), prompt),
        *(load(1.1, promised, failed) if promised else []), *steps(2, *work),
    )).ledgers.by_id[ONE]
    assert isinstance(found, Ledger)
    assert found.problems == ()
    assert (found.local, found.loaded) == (local * BLOCK, kept * BLOCK)
    assert found.local + found.loaded + found.computed == prompt
    assert found.lost == found.recomputed_after_failure == failed * BLOCK


def _prompt(one: KvLookup, tokens: int) -> KvLookup:
    return msgspec.structs.replace(one, prompt_tokens=tokens)


DEMO = demo_run()
STEPS = DEMO.journal.select(StepScheduled)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, len(STEPS) - 1))
def test_dropping_any_single_step_of_a_run_shows(dropped: int) -> None:
    found = Analysis(without(DEMO, lambda one: one is STEPS[dropped])).ledgers
    ledgers = [ledger for ledger in found.by_id.values() if isinstance(ledger, Ledger)]
    assert found.problems or any(ledger.problems for ledger in ledgers)


def test_work_of_a_run_is_conserved() -> None:
    # every token of every step is in exactly one ledger
    ledgers = [one for one in Analysis(DEMO).ledgers.by_id.values() if isinstance(one, Ledger)]
    assert sum(one.scheduled for one in ledgers) == sum(step.total_tokens for step in STEPS)
