"""The protocol of one injection: problems, arm, strike, fired, heal, verify.

An injection is believed only on the word of its target. What the probe says it did is counted as *applied*; *fired*
needs a consequence outside the probe: the scheduler's gauge, the engine's log, the tier's answer, the client's clock.
"""

from dataclasses import dataclass
from typing import Protocol

from testbed.journal.events import KvLoadEnded
from testbed.probe.orders import Aim
from testbed.spec.experiment import FaultSpec


@dataclass(frozen=True)
class Removed:
    """What a tier answered to a deletion: copies removed and copies kept."""

    deleted: int
    skipped: int


class TargetFacts(Protocol):
    """What is known of a target before anything runs."""

    @property
    def kind(self) -> str:
        """The kind of tier, `none` for an engine without one."""

    @property
    def load_deadline_s(self) -> float | None:
        """When the guard gives a load up; None without a guard."""


class TierTarget(TargetFacts, Protocol):
    """The tier of a live deployment, as faults see it: the experiment hands one in, tests a fake that fits."""

    def arm(self, aim: Aim) -> None:
        """Let the probe obey `aim` from now on, until it is disarmed or its dead-man time has come."""

    def disarm(self, fault: str) -> None:
        """Let the probe forget the fault; requests that it holds go on at once. Safe to call twice."""

    def release(self, request_id: str) -> None:
        """Let a request go on that is held until released."""

    def remove_objects(self, request_id: str) -> Removed:
        """Delete the objects of this request's prompt from all levels of the tier, locked or not."""

    def await_deferred(self, limit_s: float) -> int:
        """The scheduler's own count of requests that wait for their KV, once it is above 0; 0 if it never was."""

    def load_end(self, request_id: str) -> KvLoadEnded | None:
        """How the first load of a request ended, None if it has not."""

    def recovered_tokens(self, load: KvLoadEnded) -> int | None:
        """The tokens that the engine's own log says were affected by this load's failure; None if it says nothing."""

    def ttft_sent_s(self, request_id: str) -> float | None:
        """The client's time from sending a request to its first token."""

    def wrong_output(self, request_id: str) -> str | None:
        """How the answer of a request differs from the golden one; None if it does not."""

    def canary_loads(self) -> bool:
        """Whether a prompt that the tier holds is loaded from it now."""


class Fault(Protocol):
    """One kind of harm, with its parameters as fields. `label` is its name within the run."""

    @property
    def label(self) -> str:
        """The name under which this fault is journalled."""

    @property
    def stage(self) -> str:
        """Where in a load it strikes."""

    @property
    def fail_reason(self) -> str:
        """Why a load that it strikes ends: load_error or deadline; empty where it fails none."""

    @property
    def hold_s(self) -> float | None:
        """How long it holds a request between LOOKUP and LOAD; None if it does not."""

    def problems(self, target: TargetFacts) -> list[str]:
        """Why it can't do its harm on this target; empty if it can."""

    def arm(self, target: TierTarget) -> None:
        """Set it on the target."""

    def strike(self, target: TierTarget, request_id: str) -> str:
        """Do the harm to a request that the probe holds or has struck; return what the target showed meanwhile."""

    def fired(self, target: TierTarget, request_id: str, shown: str) -> str | None:
        """The target's evidence of its effect on this request, None if there is none; `shown` is from `strike`."""

    def heal(self, target: TierTarget) -> None:
        """Take it back. Safe to call twice."""

    def verify(self, target: TierTarget) -> bool:
        """Whether the target is healthy again."""


def aim_of(spec: FaultSpec, label: str, requests: tuple[str, ...]) -> Aim:
    """The part of an aim that all faults share: the requests that were chosen, each time that one of them loads."""
    return Aim(fault=label, action="hold", every=1, times=spec.times, requests=list(requests))
