"""What the prompts of a load are cut from, for a server of which nothing but its address may be known."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from testbed.drive.options import Wording
from testbed.errors import SpecError
from testbed.experiment.facts import corpus_tokens
from testbed.workload.corpus import stdlib_text

VOCAB_SIZE = 1000
"""Below the vocabulary of every model that we know of, so that an id means something to any."""
FIRST_ID = 16
"""Ids below are often those of special tokens."""
SEEDED_TOKENS = 200_000
"""So many prompts can begin differently; the plan says how much they share."""
PROBE_TOKENS = 8


@dataclass(frozen=True)
class Prompts:
    """`tokens` is the corpus; with a `wording` text of it is sent. `lengths` says what a planned length counts.

    `probe` is a short prompt of the corpus' highest ids: a server that knows these knows all of them.
    """

    tokens: Sequence[int]
    wording: Wording | None
    lengths: str
    told: str
    probe: tuple[int, ...]

    @property
    def form(self) -> str:
        """ids, text or chat."""
        if self.wording is None:
            return "ids"
        return "chat" if self.wording.chat else "text"


def make_prompts(*, chat: bool, text: bool, tokenizer: Path | None, vocab_size: int | None, seed: int) -> Prompts:
    """Real text where a tokenizer or text is asked for, else seeded token ids below `vocab_size`.

    Raises: SpecError
    """
    if tokenizer is not None:
        if vocab_size is not None:
            raise SpecError("the tokenizer says how large it is; leave one of both out", where="--vocab-size")
        return _tokenized(tokenizer, chat, text)
    if chat or text:
        if vocab_size is not None:
            raise SpecError("text is sent, so there are no token ids", where="--vocab-size")
        return _words(chat)
    return _seeded(VOCAB_SIZE if vocab_size is None else vocab_size, seed)


def _tokenized(folder: Path, chat: bool, text: bool) -> Prompts:
    from tokenizers import Tokenizer

    if not (folder / "tokenizer.json").is_file():
        raise SpecError(
            f"{str(folder)!r} is no folder with a tokenizer.json", where="--tokenizer",
            hint="no hub is asked; give a folder on this disk, or leave it out for seeded token ids",
        )
    tokens = corpus_tokens(folder)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    wording = Wording(lambda ids: str(tokenizer.decode(list(ids))), chat) if chat or text else None
    return Prompts(tokens, wording, "tokens", f"real text by the tokenizer of {folder.name}", _highest(set(tokens)))


def _words(chat: bool) -> Prompts:
    """Without a tokenizer a text can be measured in words alone; how many tokens they are, the server says."""
    words = stdlib_text().split()
    places = range(len(words))
    wording = Wording(lambda ids: " ".join(words[place] for place in ids), chat)
    return Prompts(places, wording, "words", "real text, with lengths in words", tuple(places[-PROBE_TOKENS:]))


def _seeded(vocab_size: int, seed: int) -> Prompts:
    if vocab_size <= FIRST_ID:
        raise SpecError(f"is {vocab_size}; must be above {FIRST_ID}, the ids below are left out", where="--vocab-size")
    drawn = np.random.default_rng(seed).integers(FIRST_ID, vocab_size, SEEDED_TOKENS, dtype=np.int32)
    tokens = array("i", drawn.tobytes())
    told = f"seeded token ids from {FIRST_ID} to {vocab_size - 1}"
    return Prompts(tokens, None, "tokens", told, _highest(range(FIRST_ID, vocab_size)))


def _highest(ids: Sequence[int] | set[int]) -> tuple[int, ...]:
    return tuple(sorted(ids)[-PROBE_TOKENS:])
