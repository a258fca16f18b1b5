"""Whether an engine's greedy answer is the right one: equal, a near-tie, or wrong."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from testbed.journal.manifest import GoldenAnswer

# The largest gap between first and second token that rounding may turn round: 16-bit logits are coarse.
TIE_GAP_NATS: Mapping[str, float] = {"float32": 0.05, "float16": 0.3, "bfloat16": 0.3}


@dataclass(frozen=True)
class Reference:
    """A prompt and its greedy answer computed by transformers at float32."""

    prompt: tuple[int, ...]
    golden: GoldenAnswer


@dataclass(frozen=True)
class Agreement:
    """How an answer compares with its golden one; `first_difference` is None if they are equal."""

    kind: Literal["equal", "near_tie", "wrong"]
    first_difference: int | None
    detail: str


def compare(golden: GoldenAnswer, token_ids: Sequence[int], tie_gap_nats: float) -> Agreement:
    """Compare token by token up to the first difference.

    That difference is a near-tie if golden's runner-up came and lies at most `tie_gap_nats` behind.
    """
    right = golden.token_ids
    shared = min(len(right), len(token_ids))
    at = next((index for index in range(shared) if right[index] != token_ids[index]), None)
    if at is None and len(token_ids) == len(right):
        return Agreement("equal", None, f"{len(right)} tokens are equal")
    if at is None:
        return Agreement("wrong", shared, f"{len(token_ids)} tokens came, not {len(right)}")
    gap, second = golden.gaps_nats[at], golden.second_ids[at]
    said = f"token {at} is {token_ids[at]}, not {right[at]}; golden's second is {second}, {gap:.3f} nats behind"
    near = token_ids[at] == second and gap <= tie_gap_nats
    return Agreement("near_tie" if near else "wrong", at, said)
