"""Compare each measured answer with the golden one: right, a near-tie, wrong, or nothing to compare with."""

from dataclasses import dataclass
from typing import Literal

from testbed.journal.manifest import GoldenAnswer
from testbed.journal.run import Run
from testbed.metrics.requests import RequestRow

Kind = Literal["right", "near_tie", "wrong", "no_golden", "no_token_ids", "not_complete"]


@dataclass(frozen=True)
class Match:
    """How an answer compares: `position` is the first differing token, `expected` golden's there."""

    kind: Kind
    position: int | None = None
    expected: int | None = None
    got: int | None = None
    gap_nats: float | None = None

    @property
    def right(self) -> bool:
        """True for an equal answer and for a near-tie, which counts as right and is shown."""
        return self.kind in ("right", "near_tie")

    def __str__(self) -> str:
        if self.position is None:
            return self.kind
        gap = "" if self.gap_nats is None else f", golden's gap there is {self.gap_nats:.3g} nats"
        instead = f"{_token(self.got)} instead of {_token(self.expected)}"
        return f"{self.kind} at output token {self.position}: {instead}{gap}"


def _token(token: int | None) -> str:
    return "the end" if token is None else f"id {token}"


def compare(answer: list[int], golden: GoldenAnswer, tie_gap_nats: float) -> Match:
    """Compare token ids. Only the first difference counts: what follows it continues another text."""
    if answer == golden.token_ids:
        return Match("right")
    position = next(
        (index for index, (got, expected) in enumerate(zip(answer, golden.token_ids, strict=False)) if got != expected),
        min(len(answer), len(golden.token_ids)),
    )
    got = answer[position] if position < len(answer) else None
    expected = golden.token_ids[position] if position < len(golden.token_ids) else None
    gap = golden.gaps_nats[position] if position < len(golden.gaps_nats) else None
    second = golden.second_ids[position] if position < len(golden.second_ids) else None
    # An answer that ends early has no token to compare with the runner-up, so it is never taken for a near-tie.
    tie = got is not None and expected is not None and got == second and gap is not None and gap <= tie_gap_nats
    return Match("near_tie" if tie else "wrong", position, expected, got, gap)


def match_of(row: RequestRow, run: Run) -> Match:
    """The comparison of one request; `not_complete` where it has no complete answer."""
    if row.ended is None or not row.ok:
        return Match("not_complete")
    golden = run.golden.get(row.planned.prompt_key)
    if golden is None:
        return Match("no_golden")
    if not row.ended.token_ids:
        return Match("no_token_ids")
    return compare(row.ended.token_ids, golden, run.manifest.tie_gap_nats)
