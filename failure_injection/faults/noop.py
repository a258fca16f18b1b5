"""Strike requests and do nothing to them: shows that a fault without effect is found out."""

from dataclasses import dataclass
from typing import ClassVar

import msgspec

from failure_injection.fault import TargetFacts, TierTarget
from testbed.probe.orders import Aim


@dataclass(frozen=True)
class Noop:
    """Chooses requests as any fault does, and never fires."""

    aim: Aim

    stage = "lookup"
    fail_reason = ""
    hold_s: ClassVar[None] = None

    @property
    def label(self) -> str:
        """The name under which this fault is journalled."""
        return self.aim.fault

    def problems(self, target: TargetFacts) -> list[str]:
        return [] if target.kind != "none" else [f"{self.label}: the arm has no tier, so no load can be struck"]

    def arm(self, target: TierTarget) -> None:
        target.arm(msgspec.structs.replace(self.aim, action="hold", seconds=0.0))

    def strike(self, target: TierTarget, request_id: str) -> str:
        return ""

    def fired(self, target: TierTarget, request_id: str, shown: str) -> str | None:
        """Nothing can show what was not done."""
        return None

    def heal(self, target: TierTarget) -> None:
        target.disarm(self.label)

    def verify(self, target: TierTarget) -> bool:
        return target.canary_loads()
