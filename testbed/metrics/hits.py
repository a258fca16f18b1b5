"""What the caches gave a request, beside what the plan says that caches without an end would find.

The plan knows the longest prefix that a prompt shares with those planned before it. Caches find at most that, in whole
blocks, and less where memory ended. More than that came from somewhere else: another run, another tenant, foreign KV.
Two things may add to it without anybody's fault, and are allowed for:

* an answer. The next turn of a chat holds a planned answer in place of the real one. Where a real answer happens to
  begin like it, the caches hold that much more: at most the answer without its last token, which nobody computes. This
  can only be where the shared prefix is the whole prompt of an earlier request.
* another order. A request that was overtaken, by one planned after it, may find what that one left; of such a request
  nothing can be said. Warm-up, canaries and fill share nothing with measured prompts, or are counted by the plan.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from testbed.journal.events import StepScheduled
from testbed.metrics.declaration import RequestMetric
from testbed.metrics.ledger import Ledger
from testbed.metrics.requests import RequestRow
from testbed.metrics.views import RequestView
from testbed.missing import Missing

NO_PLAN = Missing("the plan does not say what caches would find")


@dataclass(frozen=True)
class Hit:
    """Prompt tokens of one request: shared by the plan, allowed beside planned answers, found by the engine."""

    row: RequestRow
    planned_tokens: int
    allowed_tokens: int
    found_tokens: int
    overtaken: bool

    @property
    def foreign_tokens(self) -> int:
        """What nobody had planned; 0 where it is not to be told."""
        return 0 if self.overtaken else max(0, self.found_tokens - self.allowed_tokens)


def first_steps(events: Iterable[StepScheduled]) -> dict[str, int]:
    """When the engine first worked on each request, by id."""
    found: dict[str, int] = {}
    for event in events:
        for request_id, _, _ in event.work:
            found.setdefault(request_id, event.at_ns)
    return found


def prefix_hits(
    rows: Sequence[RequestRow], ledgers: Mapping[str, Ledger | Missing], began_at_ns: Mapping[str, int],
) -> list[Hit]:
    """The hits of one arm and repetition, in the order of the plan.

    Left out: requests without a plan or a ledger, and those whose prompt the server counts otherwise than the plan.
    `began_at_ns` is empty without a probe. Then the engine is taken to begin in the order of sending.
    """
    ordered = sorted(rows, key=lambda row: (row.planned.scheduled_at_s, row.planned.index))
    overtaken = _overtaken(ordered, began_at_ns)
    answers: dict[int, int] = {}
    found: list[Hit] = []
    for row, late in zip(ordered, overtaken, strict=True):
        planned, ledger = row.planned.hit_tokens, ledgers[row.request_id]
        if planned is not None and isinstance(ledger, Ledger) and _counted_alike(row):
            extra = answers.get(planned, 1) - 1
            found.append(Hit(row, planned, planned + extra, ledger.local + ledger.loaded, late))
        length = row.planned.prompt_tokens
        answers[length] = max(row.planned.max_tokens, answers.get(length, 1))
    return found


def _counted_alike(row: RequestRow) -> bool:
    counted = None if row.ended is None else row.ended.usage_prompt_tokens
    return row.ok and counted in (None, row.planned.prompt_tokens)


def _overtaken(ordered: Sequence[RequestRow], began_at_ns: Mapping[str, int]) -> list[bool]:
    """Whether the engine took up a request planned later before each of these."""
    best = min((row.planned.priority for row in ordered), default=None)
    began = [began_at_ns.get(row.request_id) if began_at_ns else row.sent_at_ns for row in ordered]
    known = [float("inf") if at is None else at for at in began]
    later = list(accumulate(reversed(known), min, initial=float("inf")))[-2::-1]
    return [
        next_at < at or (not began_at_ns and row.planned.priority != best)
        for row, at, next_at in zip(ordered, known, later, strict=True)
    ]


def _planned_hit_tokens(view: RequestView) -> float | Missing:
    tokens = view.row.planned.hit_tokens
    return NO_PLAN if tokens is None else float(tokens)


HIT_METRICS = (
    RequestMetric(
        name="planned_hit_tokens", unit="tokens", better="neither", needs=("request_planned",), statistics=("total",),
        meaning="prompt tokens that caches without an end would find, by the plan", compute=_planned_hit_tokens,
    ),
)
