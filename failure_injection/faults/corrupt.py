"""Overwrite one loaded block with zeros or with another prompt's KV: shows that a wrong KV is seen in the answer."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import msgspec

from failure_injection.fault import TargetFacts, TierTarget
from testbed.probe.orders import Aim


@dataclass(frozen=True)
class Corrupt:
    """`pattern` is what the first loaded block of a struck load is overwritten with."""

    aim: Aim
    pattern: Literal["zeros", "foreign"]

    stage = "complete"
    fail_reason = ""
    hold_s: ClassVar[None] = None

    @property
    def label(self) -> str:
        """The name under which this fault is journalled."""
        return self.aim.fault

    def problems(self, target: TargetFacts) -> list[str]:
        return [] if target.kind != "none" else [f"{self.label}: the arm has no tier, so no load can be corrupted"]

    def arm(self, target: TierTarget) -> None:
        target.arm(msgspec.structs.replace(self.aim, action="corrupt", pattern=self.pattern))

    def strike(self, target: TierTarget, request_id: str) -> str:
        return ""

    def fired(self, target: TierTarget, request_id: str, shown: str) -> str | None:
        """A wrong answer; that it is wrong is then a failed check too."""
        return target.wrong_output(request_id)

    def heal(self, target: TierTarget) -> None:
        target.disarm(self.label)

    def verify(self, target: TierTarget) -> bool:
        return target.canary_loads()
