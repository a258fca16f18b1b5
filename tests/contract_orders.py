"""What the driver relies on when it orders the probe about: held against a stand-in engine and against a real one.

What is ordered is taken up without a restart, strikes what it is aimed at and nothing else, is acknowledged by an event
from inside the engine, and is over when it was taken back, when it was let go, or when its time has come.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from testbed.clock import now_ns, wait_for
from testbed.experiment.channel import Channel
from testbed.journal.events import Event, FaultApplied, KvLoadBegan, KvLoadEnded, KvLookup
from testbed.journal.reader import Follower
from testbed.probe.orders import Aim

E = TypeVar("E", bound=Event)
LIMIT_S = 30.0
Prompt = tuple[int, ...]
Answer = tuple[int, ...]


@dataclass
class OrderBench:
    """An engine with a probe, and the driver's end of its orders.

    `store` gives so many new prompts that the tier holds and the engine itself does not, each with its right answer;
    `ask` gives the answer to one of them under our request id.
    """

    channel: Channel
    events: Path
    store: Callable[[int], Sequence[tuple[Prompt, Answer]]]
    ask: Callable[[Prompt, str], Answer]
    seen: list[Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._follower = Follower(self.events)
        self._follower.fresh()  # what was there before may be of an arm with the same name

    def enter(self, arm: str) -> None:
        """Events are those of `arm` from now on."""
        self.channel.enter(self.events, arm, 0)

    def found(self, kind: type[E], arm: str, **fields: Any) -> list[E]:
        """The events of an arm with these fields that have come by now."""
        self.seen += self._follower.fresh()
        return [
            one for one in self.seen
            if isinstance(one, kind) and one.arm == arm and all(getattr(one, key) == fields[key] for key in fields)
        ]

    def await_event(self, kind: type[E], arm: str, **fields: Any) -> E:
        """The first such event, once it has come."""
        what = f"{kind.__name__} {fields} in {arm}"
        wait_for(lambda: bool(self.found(kind, arm, **fields)), limit_s=LIMIT_S, what=what, every_s=0.01)
        return self.found(kind, arm, **fields)[0]


def hold(name: str, **changes: Any) -> Aim:
    """Hold the load of one request for so long that only a test ends it."""
    usual: dict[str, Any] = {"fault": "hold-0", "action": "hold", "seconds": 3.5, "nth": 1, "requests": [name]}
    return Aim(**(usual | changes))


def events_are_of_the_arm_that_was_entered_last(bench: OrderBench) -> None:
    """And what was armed before is armed no more."""
    (prompt, right), (other, right_too) = bench.store(2)
    bench.enter("one")
    bench.channel.arm(hold("one.0"), 60.0)
    bench.enter("two")
    assert bench.ask(prompt, "one.0") == right
    bench.enter("three")
    assert bench.ask(other, "three.0") == right_too
    assert bench.await_event(KvLoadEnded, "two").request_id == "one.0"
    assert bench.await_event(KvLoadEnded, "three").request_id == "three.0"
    assert bench.found(FaultApplied, "two") == []


def a_held_request_holds_no_other_and_goes_on_when_disarmed(bench: OrderBench) -> None:
    """Long before its own time; and it was the first of those that were aimed at, not the first of all."""
    (held, right), (other, right_too), (earlier, right_before) = bench.store(3)
    bench.enter("apart")
    bench.channel.arm(hold("apart.0"), 60.0)
    assert bench.ask(earlier, "apart.2") == right_before
    with ThreadPoolExecutor(2) as pool:
        answer = pool.submit(bench.ask, held, "apart.0")
        began = bench.await_event(FaultApplied, "apart", phase="began")
        assert (began.fault, began.request_id, began.stage) == ("hold-0", "apart.0", "lookup")
        answer_too = pool.submit(bench.ask, other, "apart.1")
        assert bench.await_event(KvLoadEnded, "apart", request_id="apart.1").ok
        assert bench.found(KvLoadEnded, "apart", request_id="apart.0") == []
        bench.channel.disarm("hold-0")
        assert (answer.result(LIMIT_S), answer_too.result(LIMIT_S)) == (right, right_too)
    ended = bench.await_event(FaultApplied, "apart", phase="ended")
    assert ended.held_s is not None
    assert ended.held_s < 3.5
    assert {one.request_id for one in bench.found(FaultApplied, "apart")} == {"apart.0"}
    assert bench.await_event(KvLoadEnded, "apart", request_id="apart.0").ok


def a_hold_lasts_as_long_as_it_says(bench: OrderBench) -> None:
    """And the promise is the same after it as before."""
    [(prompt, right)] = bench.store(1)
    bench.enter("timed")
    bench.channel.arm(hold("timed.0", seconds=0.4), 60.0)
    assert bench.ask(prompt, "timed.0") == right
    ended = bench.await_event(FaultApplied, "timed", phase="ended")
    assert ended.held_s is not None
    assert 0.4 <= ended.held_s < 2.0
    assert bench.await_event(KvLookup, "timed").promised_tokens > 0


def a_hold_that_awaits_its_release_ends_with_it(bench: OrderBench) -> None:
    """Later than its time, not before the word, and long before it would have ended by itself."""
    [(prompt, right)] = bench.store(1)
    bench.enter("released")
    bench.channel.arm(hold("released.0", seconds=0.1, await_release=True), 60.0)
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(bench.ask, prompt, "released.0")
        began = bench.await_event(FaultApplied, "released", phase="began")
        wait_for(lambda: now_ns() - began.at_ns > 300_000_000, limit_s=LIMIT_S, what="thrice its time")
        let_go_at_ns = now_ns()
        bench.channel.release("released.0")
        assert answer.result(LIMIT_S) == right
    ended = bench.await_event(FaultApplied, "released", phase="ended")
    assert let_go_at_ns < ended.at_ns < let_go_at_ns + 2_000_000_000


def a_slow_load_is_reported_late_and_is_right(bench: OrderBench) -> None:
    """By the time that it was given, counted from its beginning."""
    [(prompt, right)] = bench.store(1)
    bench.enter("slow")
    bench.channel.arm(Aim(fault="slow-0", action="slow", seconds=0.5, nth=1), 60.0)
    assert bench.ask(prompt, "slow.0") == right
    ended = bench.await_event(KvLoadEnded, "slow")
    assert ended.ok
    assert ended.at_ns - bench.await_event(KvLoadBegan, "slow").at_ns >= 500_000_000
    phases = [(one.stage, one.phase) for one in bench.found(FaultApplied, "slow")]
    assert phases == [("complete", "began"), ("complete", "ended")]


def a_corrupted_block_changes_the_answer(bench: OrderBench) -> None:
    """Zeros at the first load; what another load brought at the second."""
    (prompt, right), (first, right_first), (second, right_second) = bench.store(3)
    bench.enter("zeros")
    bench.channel.arm(Aim(fault="zeros-0", action="corrupt", nth=1), 60.0)
    assert bench.ask(prompt, "zeros.0") != right
    assert bench.await_event(FaultApplied, "zeros").request_id == "zeros.0"
    bench.enter("foreign")
    bench.channel.arm(Aim(fault="foreign-0", action="corrupt", pattern="foreign", nth=2), 60.0)
    assert bench.ask(first, "foreign.0") == right_first
    assert bench.ask(second, "foreign.1") != right_second
    assert [one.request_id for one in bench.found(FaultApplied, "foreign")] == ["foreign.1"]


def loads_are_counted_and_no_more_are_struck_than_asked(bench: OrderBench) -> None:
    """Each second one, and one in all; those that the tier does not hold do not count."""
    stored = bench.store(4)
    bench.enter("counted")
    bench.channel.arm(Aim(fault="hold-0", action="hold", every=2, times=1), 60.0)
    bench.ask(tuple(reversed(stored[0][0])), "counted.miss")
    for number, (prompt, right) in enumerate(stored):
        assert bench.ask(prompt, f"counted.{number}") == right
    assert {one.request_id for one in bench.found(FaultApplied, "counted")} == {"counted.1"}


def an_aim_whose_time_is_over_is_not_obeyed(bench: OrderBench) -> None:
    """Whoever armed it may be gone."""
    [(prompt, right)] = bench.store(1)
    bench.enter("dead")
    bench.channel.arm(hold("dead.0"), 0.0)
    assert bench.ask(prompt, "dead.0") == right
    assert bench.await_event(KvLoadEnded, "dead").ok
    assert bench.found(FaultApplied, "dead") == []


CLAIMS: tuple[Callable[[OrderBench], None], ...] = (
    events_are_of_the_arm_that_was_entered_last,
    a_held_request_holds_no_other_and_goes_on_when_disarmed,
    a_hold_lasts_as_long_as_it_says,
    a_hold_that_awaits_its_release_ends_with_it,
    a_slow_load_is_reported_late_and_is_right,
    a_corrupted_block_changes_the_answer,
    loads_are_counted_and_no_more_are_struck_than_asked,
    an_aim_whose_time_is_over_is_not_obeyed,
)
