"""What a metric sees: one request with all that is known of it, or all requests of one class in one arm."""

from dataclasses import dataclass

from testbed.journal.manifest import ArmFacts, Limits
from testbed.metrics.drives import Drive
from testbed.metrics.golden import Match
from testbed.metrics.ledger import Ledger
from testbed.metrics.loads import Load
from testbed.metrics.requests import RequestRow
from testbed.missing import Missing

ALL_CLASSES = "all"


@dataclass(frozen=True, slots=True)
class RequestView:
    """One measured request. `outputs_checked` is False where the run has no golden answers at all."""

    row: RequestRow
    ledger: Ledger | Missing
    match: Match
    limits: Limits | None
    loads: tuple[Load, ...]
    outputs_checked: bool


@dataclass(frozen=True)
class ArmView:
    """The measured requests of one class, or of all, in one arm; repetitions are pooled.

    `window_s` runs from the first scheduled request to the last end, summed over repetitions, for the arm as a whole.
    `drives` are these requests by repetition, with the client that sent them.
    """

    arm: ArmFacts
    traffic_class: str
    requests: tuple[RequestView, ...]
    window_s: float | Missing
    outputs_checked: bool
    drives: tuple[Drive, ...] = ()
