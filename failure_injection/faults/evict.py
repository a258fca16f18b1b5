"""Delete a request's objects from all levels of the tier after it has promised them, and before they are loaded.

The request is held meanwhile, for as long as its control is; the load failure that follows is the tier's own.
"""

from dataclasses import dataclass

import msgspec

from failure_injection.fault import TargetFacts, TierTarget
from testbed.probe.orders import Aim


@dataclass(frozen=True)
class Evict:
    """`hold_s` is how long a request is held, the deletion being made within it."""

    aim: Aim
    hold_s: float

    stage = "lookup"
    fail_reason = "load_error"

    @property
    def label(self) -> str:
        """The name under which this fault is journalled."""
        return self.aim.fault

    def problems(self, target: TargetFacts) -> list[str]:
        if target.kind == "none":
            return [f"{self.label}: the arm has no tier, so there is nothing to evict"]
        if target.load_deadline_s is not None and self.hold_s >= target.load_deadline_s:
            limit = f"at load_deadline ({target.load_deadline_s:g} s) the promise is given up"
            return [f"{self.label}: hold is {self.hold_s:g} s; {limit}"]
        return []

    def arm(self, target: TierTarget) -> None:
        target.arm(msgspec.structs.replace(self.aim, action="hold", seconds=self.hold_s, await_release=True))

    def strike(self, target: TierTarget, request_id: str) -> str:
        removed = target.remove_objects(request_id)
        target.release(request_id)
        return f"the tier's answer: {removed.deleted} copies deleted, {removed.skipped} kept" if removed.deleted else ""

    def fired(self, target: TierTarget, request_id: str, shown: str) -> str | None:
        """The tier's answer, the connector's own failure, and the engine's log."""
        load = target.load_end(request_id)
        if not shown or load is None or load.ok or load.reason != "load_error":
            return None
        tokens = target.recovered_tokens(load)
        return f"{shown}; the engine's log: load failure, {tokens} tokens affected" if tokens else None

    def heal(self, target: TierTarget) -> None:
        target.disarm(self.label)

    def verify(self, target: TierTarget) -> bool:
        return target.canary_loads()
