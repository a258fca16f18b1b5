"""Tokens for the pieces of a trace's prompts, so that two prompts share exactly what the trace says, and no token more.

A piece stands for itself and all before it, so pieces form a tree. Each gets a run of the corpus. Pieces that follow
the same one begin with different tokens: where the trace lets two prompts part, their tokens part too.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from testbed.errors import SpecError
from testbed.workload.streams import stream
from testbed.workload.trace.records import TraceRow

PiecePath = tuple[int, ...]
"""Numbers of the pieces from the start of a prompt; the root is nowhere in it."""
_ROOT = -1
ENOUGH_RATIO = 20
"""After so many different pairs for each beginning that is needed, next to all first tokens have been met."""
LEAST_PLACES = 2000
"""Where a trace needs few beginnings, there are as many all the same, so that its texts are not all alike."""


def scaled_ends(ends: Iterable[int], scale: Fraction) -> tuple[int, ...]:
    """Where pieces end once each token counts `scale`: rounded up, and no piece is lost.

    The end of a piece depends on what stands before it alone, so prompts that shared it share it still.
    """
    made: list[int] = []
    for end in ends:
        made.append(max(-(-end * scale.numerator // scale.denominator), made[-1] + 1 if made else 1))
    return tuple(made)


class PieceTree:
    """The pieces of all rows of a file, numbered as they first come; a row without ids is a single piece of its own.

    `paths` has the pieces of each row.
    """

    def __init__(self, rows: Iterable[TraceRow]) -> None:
        self._numbers: dict[tuple[int, int | str], int] = {}
        self._children: dict[int, int] = defaultdict(int)
        self._rank: list[int] = []
        self._parent: list[int] = []
        self.paths = tuple(self._path(index, row) for index, row in enumerate(rows))

    def place(self, piece: int) -> tuple[int, int]:
        """The piece before it (-1 for none), and how many pieces that follow the same one came earlier."""
        return self._parent[piece], self._rank[piece]

    def __len__(self) -> int:
        return len(self._rank)

    @property
    def most_followers(self) -> int:
        """The largest number of pieces that follow the same one."""
        return max(self._children.values(), default=0)

    def _path(self, index: int, row: TraceRow) -> PiecePath:
        path: list[int] = []
        before = _ROOT
        for name in row.ids if row.ids else (f"row {index}",):
            number = self._numbers.setdefault((before, name), len(self._rank))
            if number == len(self._rank):
                self._rank.append(self._children[before])
                self._parent.append(before)
                self._children[before] += 1
            path.append(number)
            before = number
        return tuple(path)


@dataclass(frozen=True)
class Texts:
    """The corpus, and the places in it at which pieces may begin.

    `places` begin with one place for each distinct first token; after `distinct` of them come places that differ in
    their first two tokens. `offsets` turn the places for the pieces after each piece, so that not all begin alike.
    """

    tokens: Sequence[int]
    places: tuple[int, ...]
    distinct: int
    offsets: Sequence[int]

    def start(self, before: int, rank: int) -> int:
        """Where the text of the piece begins that is the `rank`-th to follow `before`.

        Raises: SpecError if the corpus has no more places that differ.
        """
        if rank >= len(self.places):
            corpus = f"a corpus of {len(self.tokens)} tokens has {len(self.places)} beginnings"
            raise SpecError(f"{corpus}; the trace has more")
        offset = self.offsets[before + 1]
        if rank < self.distinct:
            return self.places[(rank + offset) % self.distinct]
        return self.places[self.distinct + (rank - self.distinct + offset) % (len(self.places) - self.distinct)]

    def cut(self, start: int, length: int) -> tuple[int, ...]:
        """`length` tokens from `start`; after the corpus's end it goes on at its beginning."""
        whole, text = len(self.tokens), tuple(self.tokens[start : start + length])
        while len(text) < length:
            text += tuple(self.tokens[: min(whole, length - len(text))])
        return text


def texts_for(tree: PieceTree, tokens: Sequence[int], *, name: str, seed: int) -> Texts:
    """Choose the places by seed. Raises: SpecError if there is no corpus."""
    if len(tokens) < 2:
        raise SpecError("a corpus of fewer than two tokens has nothing to cut from")
    wanted = max(LEAST_PLACES, tree.most_followers)
    firsts: dict[int, int] = {}
    pairs: dict[tuple[int, int], int] = {}
    for place in map(int, stream(seed, name, "places").permutation(len(tokens))):
        first, second = tokens[place], tokens[(place + 1) % len(tokens)]
        firsts.setdefault(first, place)
        pairs.setdefault((first, second), place)
        if len(firsts) >= wanted or len(pairs) >= ENOUGH_RATIO * wanted:
            break
    taken = set(firsts.values())
    places = (*firsts.values(), *(place for place in pairs.values() if place not in taken))
    offsets = stream(seed, name, "offsets").integers(0, len(tokens), size=len(tree) + 1)
    return Texts(tokens, places, len(firsts), offsets.tolist())
