"""Prefix groups, built token by token: what each request of a round shares with earlier ones is known beforehand."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from testbed.errors import SpecError
from testbed.spec.workload import GROUPS
from testbed.workload.texts import Text


@dataclass(frozen=True)
class Round:
    """The prompts of one round, system prompt left out, as a prefix and a question each, in the order of GROUPS."""

    prompts: tuple[tuple[Text, Text], ...]

    def of(self, group: str) -> tuple[Text, Text]:
        """Prefix and question of one group."""
        return self.prompts[GROUPS.index(group)]


def make_round(
    tokens: Sequence[int], places: tuple[int, int], rng: np.random.Generator, lengths: tuple[int, int], change_at: int
) -> Round:
    """One round. `places` are where its two fresh prefixes begin, `lengths` those of a prefix and of a question.

    Raises: SpecError if the corpus is too short, or has one token only.
    """
    prefix_tokens, question_tokens = lengths
    prefix, other = (_read_on(tokens, place, prefix_tokens) for place in places)
    question_at = int(rng.integers(len(tokens)))
    question = _read_on(tokens, question_at, question_tokens)
    another = _read_on(tokens, _other_than(tokens, question[0], question_at), question_tokens)
    change_at = min(change_at, prefix_tokens - 1)
    changed = tokens[_other_than(tokens, prefix[change_at], places[0])]
    early = (*prefix[:change_at], int(changed), *prefix[change_at + 1 :])
    return Round(((prefix, question), (prefix, another), (early, question), (other, question)))


def _read_on(tokens: Sequence[int], start: int, length: int) -> Text:
    """`length` tokens from a place on; after the end of the corpus comes its beginning."""
    if length > len(tokens):
        raise SpecError(f"a corpus of {len(tokens)} tokens is too short for a text of {length}")
    here = tokens[start : start + length]
    return tuple(map(int, (*here, *tokens[: length - len(here)])))


def _other_than(tokens: Sequence[int], token: int, start: int) -> int:
    """The next place, from `start` on and round, that has another token."""
    for step in range(len(tokens)):
        place = (start + step) % len(tokens)
        if tokens[place] != token:
            return place
    raise SpecError("the corpus has one token only; prefix groups need two")
