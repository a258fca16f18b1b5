"""Hold a request between LOOKUP and RESERVE: what a wait alone costs, the control of faults that need one.

Heal lets held requests go on at once; none is dropped.
"""

from dataclasses import dataclass

import msgspec

from failure_injection.fault import TargetFacts, TierTarget
from testbed.probe.orders import Aim


@dataclass(frozen=True)
class Hold:
    """`hold_s` is added to each load that is struck."""

    aim: Aim
    hold_s: float

    stage = "lookup"
    fail_reason = ""

    @property
    def label(self) -> str:
        """The name under which this fault is journalled."""
        return self.aim.fault

    def problems(self, target: TargetFacts) -> list[str]:
        if target.kind == "none":
            return [f"{self.label}: the arm has no tier, so no load can be held"]
        if target.load_deadline_s is not None and self.hold_s >= target.load_deadline_s:
            limit = f"at load_deadline ({target.load_deadline_s:g} s) the promise is given up"
            return [f"{self.label}: for is {self.hold_s:g} s; {limit}"]
        return []

    def arm(self, target: TierTarget) -> None:
        target.arm(msgspec.structs.replace(self.aim, action="hold", seconds=self.hold_s))

    def strike(self, target: TierTarget, request_id: str) -> str:
        deferred = target.await_deferred(self.hold_s)
        return f"the scheduler's own gauge: {deferred} deferred while held" if deferred else ""

    def fired(self, target: TierTarget, request_id: str, shown: str) -> str | None:
        """The scheduler's gauge while it was held, and the client's clock."""
        ttft_s = target.ttft_sent_s(request_id)
        if not shown or ttft_s is None or ttft_s < self.hold_s:
            return None
        return f"{shown}; the client's TTFT from sending is {ttft_s:.2f} s, above the hold of {self.hold_s:g} s"

    def heal(self, target: TierTarget) -> None:
        target.disarm(self.label)

    def verify(self, target: TierTarget) -> bool:
        return target.canary_loads()
