"""Each fault against a target that fits the seam: what it refuses, arms, believes, and takes back."""

from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from failure_injection.catalogue import KINDS, make_fault
from failure_injection.fault import Fault, Removed
from testbed.errors import SpecError
from testbed.journal.events import KvLoadEnded
from testbed.probe.orders import Aim
from testbed.spec.experiment import FaultSpec

LOAD = KvLoadEnded(
    at_ns=1,
    host="h",
    pid=1,
    seq=0,
    arm="a",
    repetition=0,
    request_id="r",
    attempt=1,
    ok=False,
    blocks=4,
    failed_blocks=4,
    load_bytes=64,
    path="p",
    reason="load_error",
)


@dataclass
class FakeTarget:
    """A tier whose answers are set by hand; remembers what was asked of it."""

    kind: str = "lmcache"
    load_deadline_s: float | None = 2.0
    deferred: int = 1
    ttft_s: float | None = 3.0
    load: KvLoadEnded | None = LOAD
    logged: int | None = 512
    removed: Removed = field(default_factory=lambda: Removed(8, 0))
    wrong: str | None = None
    aims: dict[str, Aim] = field(default_factory=dict)
    released: list[str] = field(default_factory=list)

    def arm(self, aim: Aim) -> None:
        self.aims[aim.fault] = aim

    def disarm(self, fault: str) -> None:
        self.aims.pop(fault, None)

    def release(self, request_id: str) -> None:
        self.released.append(request_id)

    def remove_objects(self, request_id: str) -> Removed:
        return self.removed

    def await_deferred(self, limit_s: float) -> int:
        return self.deferred

    def load_end(self, request_id: str) -> KvLoadEnded | None:
        return self.load

    def recovered_tokens(self, load: KvLoadEnded) -> int | None:
        return self.logged

    def ttft_sent_s(self, request_id: str) -> float | None:
        return self.ttft_s

    def wrong_output(self, request_id: str) -> str | None:
        return self.wrong

    def canary_loads(self) -> bool:
        return True


SPECS: dict[str, dict[str, Any]] = {
    "noop": {},
    "hold": {"for": "1s"},
    "evict": {"hold": "1s"},
    "slow_load": {"for": "5s"},
    "corrupt": {"pattern": "zeros"},
}


def fault(kind: str, **changes: Any) -> Fault:
    written = {"kind": kind, "tier": "tier", "trigger": {"every": 3}} | SPECS[kind] | changes
    return make_fault(FaultSpec.model_validate(written), f"{kind}-0", ("r", "s"))


def evidence(one: Fault, target: FakeTarget) -> str | None:
    return one.fired(target, "r", one.strike(target, "r"))


def test_every_kind_of_the_catalogue_is_tested_here() -> None:
    assert set(SPECS) == set(KINDS)


@pytest.mark.parametrize("kind", SPECS)
def test_a_fault_arms_its_aim_and_heal_takes_it_back_twice(kind: str) -> None:
    target, one = FakeTarget(), fault(kind)
    one.arm(target)
    assert target.aims[f"{kind}-0"].requests == ["r", "s"]
    assert target.aims[f"{kind}-0"].every == 1  # the trigger has chosen them; each of their loads is struck
    one.heal(target)
    one.heal(target)
    assert target.aims == {}
    assert one.verify(target)


@pytest.mark.parametrize("kind", SPECS)
def test_no_fault_of_a_tier_strikes_where_there_is_none(kind: str) -> None:
    assert fault(kind).problems(FakeTarget(kind="none", load_deadline_s=None))
    assert fault(kind).problems(FakeTarget()) == []


@pytest.mark.parametrize(("kind", "key"), [("hold", "for"), ("evict", "hold")])
def test_a_hold_beyond_the_deadline_is_refused(kind: str, key: str) -> None:
    [problem] = fault(kind, **{key: "2s"}).problems(FakeTarget())
    assert "load_deadline (2 s)" in problem


def test_a_slow_load_within_the_deadline_is_refused() -> None:
    [problem] = fault("slow_load", **{"for": "2s"}).problems(FakeTarget())
    assert "to force a timeout it must be above load_deadline (2 s)" in problem


def test_a_hold_is_believed_when_gauge_and_client_show_it() -> None:
    assert evidence(fault("hold"), FakeTarget()) is not None
    assert evidence(fault("hold"), FakeTarget(deferred=0)) is None
    assert evidence(fault("hold"), FakeTarget(ttft_s=0.9)) is None
    assert evidence(fault("hold"), FakeTarget(ttft_s=None)) is None


def test_an_eviction_is_believed_when_tier_connector_and_engine_log_show_it() -> None:
    target = FakeTarget()
    assert evidence(fault("evict"), target) == (
        "the tier's answer: 8 copies deleted, 0 kept; the engine's log: load failure, 512 tokens affected"
    )
    assert target.released == ["r"], "the request is let go once its objects are gone"
    assert evidence(fault("evict"), FakeTarget(removed=Removed(0, 8))) is None
    assert evidence(fault("evict"), FakeTarget(logged=None)) is None
    assert evidence(fault("evict"), FakeTarget(load=None)) is None
    assert evidence(fault("evict"), FakeTarget(load=_with(ok=True))) is None
    assert evidence(fault("evict"), FakeTarget(load=_with(reason="deadline"))) is None


def test_a_slow_load_is_believed_when_it_was_given_up_and_the_engine_says_so() -> None:
    late = _with(reason="deadline")
    assert evidence(fault("slow_load"), FakeTarget(load=late)) is not None
    assert evidence(fault("slow_load"), FakeTarget(load=LOAD)) is None, "the tier's own failure is another fault"
    assert evidence(fault("slow_load"), FakeTarget(load=late, logged=None)) is None


def test_a_corruption_is_believed_when_the_answer_is_wrong() -> None:
    assert evidence(fault("corrupt"), FakeTarget(wrong="differs")) == "differs"
    assert evidence(fault("corrupt"), FakeTarget()) is None


def test_a_fault_that_does_nothing_never_fires() -> None:
    assert evidence(fault("noop"), FakeTarget(wrong="differs")) is None


def _with(**changes: Any) -> KvLoadEnded:
    return msgspec.structs.replace(LOAD, **changes)


def test_an_unknown_kind_is_refused_with_the_known_ones() -> None:
    spec = FaultSpec.model_validate({"kind": "evcit", "trigger": {"nth": 1}})
    with pytest.raises(SpecError, match="corrupt, evict, hold, noop, slow_load"):
        make_fault(spec, "x")


@pytest.mark.parametrize(("kind", "between"), [("hold", ["load", "complete"]), ("slow_load", ["lookup", "load"])])
def test_a_place_that_a_fault_does_not_strike_is_refused(kind: str, between: list[str]) -> None:
    with pytest.raises(SpecError, match="can't strike between"):
        fault(kind, between=between)


@pytest.mark.parametrize(
    ("kind", "extra"), [("noop", {"for": "1s"}), ("corrupt", {"hold": "1s"}), ("hold", {"hold": "1s"})]
)
def test_a_parameter_that_a_kind_does_not_use_is_refused(kind: str, extra: dict[str, str]) -> None:
    with pytest.raises(SpecError, match="does not take"):
        fault(kind, **extra)


def test_a_missing_duration_is_refused() -> None:
    spec = FaultSpec.model_validate({"kind": "hold", "trigger": {"nth": 1}})
    with pytest.raises(SpecError, match="needs for"):
        make_fault(spec, "x")
