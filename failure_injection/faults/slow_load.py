"""Let loads end later than the load deadline, so that the guard gives them up and the engine must compute.

The bytes do arrive; only the report is kept back, so that no block is used again while it may be written to.
"""

from dataclasses import dataclass
from typing import ClassVar

import msgspec

from failure_injection.fault import TargetFacts, TierTarget
from testbed.probe.orders import Aim


@dataclass(frozen=True)
class SlowLoad:
    """`slow_s` is how long after its beginning a struck load is reported as complete."""

    aim: Aim
    slow_s: float

    stage = "complete"
    fail_reason = "deadline"
    hold_s: ClassVar[None] = None

    @property
    def label(self) -> str:
        """The name under which this fault is journalled."""
        return self.aim.fault

    def problems(self, target: TargetFacts) -> list[str]:
        if target.kind == "none":
            return [f"{self.label}: the arm has no tier, so no load can be slow"]
        if target.load_deadline_s is None or self.slow_s > target.load_deadline_s:
            return []
        return [
            f"{self.label}: for is {self.slow_s:g} s; to force a timeout it must be above load_deadline"
            f" ({target.load_deadline_s:g} s)"
        ]

    def arm(self, target: TierTarget) -> None:
        target.arm(msgspec.structs.replace(self.aim, action="slow", seconds=self.slow_s))

    def strike(self, target: TierTarget, request_id: str) -> str:
        return ""

    def fired(self, target: TierTarget, request_id: str, shown: str) -> str | None:
        """The engine's log of a failure, at a load that the guard gave up."""
        load = target.load_end(request_id)
        if load is None or load.ok or load.reason != "deadline":
            return None
        tokens = target.recovered_tokens(load)
        return f"the engine's log: load failure, {tokens} tokens affected, at the load's deadline" if tokens else None

    def heal(self, target: TierTarget) -> None:
        target.disarm(self.label)

    def verify(self, target: TierTarget) -> bool:
        return target.canary_loads()
