"""Which engine was given which beginning of a prompt.

A prompt is cut into pieces of its raw text, and each piece is named by all text up to its end, as engines name their
blocks. The oldest names are forgotten; what an engine has evicted meanwhile is not known here.
"""

from collections import OrderedDict
from collections.abc import Iterator
from hashlib import blake2b

PIECE_BYTES = 512
"""About a block of 128 token ids."""
LIMIT = 200_000


class Prefixes:
    """Remembers at most `limit` pieces, those used last."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._holders: OrderedDict[bytes, frozenset[str]] = OrderedDict()

    def names(self, prompt: bytes) -> list[bytes]:
        """The name of each whole piece of a prompt, in order."""
        return list(_names(prompt))

    def known(self, names: list[bytes], engine: str) -> int:
        """How many leading pieces `engine` was given before."""
        for count, name in enumerate(names):
            if engine not in self._holders.get(name, ()):
                return count
        return len(names)

    def known_to_any(self, names: list[bytes]) -> int:
        """How many leading pieces some engine was given before."""
        return next((count for count, name in enumerate(names) if name not in self._holders), len(names))

    def learn(self, names: list[bytes], engine: str) -> None:
        """`engine` is given a prompt of these pieces."""
        for name in names:
            self._holders[name] = self._holders.get(name, frozenset()) | {engine}
            self._holders.move_to_end(name)
        while len(self._holders) > self._limit:
            self._holders.popitem(last=False)


def _names(prompt: bytes) -> Iterator[bytes]:
    chain = blake2b(digest_size=12)
    for start in range(0, len(prompt) - PIECE_BYTES + 1, PIECE_BYTES):
        chain.update(prompt[start : start + PIECE_BYTES])
        yield chain.digest()
