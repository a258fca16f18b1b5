"""The pieces that prompts are made of: shared system prompts, documents and a small pool of questions for each."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from testbed.errors import SpecError
from testbed.spec.workload import Documents, TrafficClass
from testbed.workload.lengths import draw_length, draw_lengths, scaled
from testbed.workload.scale import document_room, system_tokens
from testbed.workload.streams import stream

QUESTIONS_PER_DOCUMENT = 2
"""So few that each distinct prompt can be checked against its right answer."""

HEAD_TOKENS = 8
"""What makes a text distinct; less than a block of KV of any engine, so what shares it alone shares no KV."""

Text = tuple[int, ...]


@dataclass(frozen=True)
class ClassTexts:
    """What the requests of one class share. `weights` are the chances of the documents, most popular first.

    `places` are where its fresh texts begin, in the order in which they are used: the prefixes of its groups, or the
    heads of distinct texts.
    """

    system: Text
    documents: tuple[Text, ...] = ()
    questions: tuple[tuple[Text, ...], ...] = ()
    weights: tuple[float, ...] = ()
    documents_cut: int = 0
    places: tuple[int, ...] = ()


def cut_text(tokens: Sequence[int], rng: np.random.Generator, length: int) -> Text:
    """`length` tokens in a row from a place that `rng` draws.

    Raises: SpecError if the corpus is shorter than that.
    """
    return _at(tokens, int(rng.integers(0, _places(tokens, length))), length)


def distinct_text(
    tokens: Sequence[int], rng: np.random.Generator, length: int, places: Sequence[int], number: int
) -> Text:
    """`length` tokens: a few from the place of that `number`, and the rest from one that `rng` draws.

    So as many texts begin differently as the corpus has places, and further ones share their head alone.
    """
    head = min(HEAD_TOKENS, length)
    start = min(places[number % len(places)], len(tokens) - head)
    return _at(tokens, start, head) + cut_text(tokens, rng, length - head)


def fresh_places(tokens: Sequence[int], rng: np.random.Generator) -> tuple[int, ...]:
    """All places of the corpus in an order that `rng` draws, but first those that begin with different tokens.

    So texts from the first of them share nothing at all, as many as the corpus has different tokens.
    """
    first: dict[int, int] = {}
    again: list[int] = []
    for place in map(int, rng.permutation(len(tokens))):
        if first.setdefault(tokens[place], place) != place:
            again.append(place)
    return (*first.values(), *again)


def class_texts(
    name: str, traffic: TrafficClass, tokens: Sequence[int], *, seed: int, length_ratio: float, max_model_len: int
) -> ClassTexts:
    """Draw the shared texts of one class; no other class has a part in it."""
    long = traffic.long_text is not None
    room = document_room(traffic, max_model_len) if long else max_model_len - system_tokens(traffic) - 1
    if room < 1:
        raise SpecError(f"a context of {max_model_len} tokens leaves no room for a request", where=f"class {name}")
    system = cut_text(tokens, stream(seed, name, "system"), system_tokens(traffic))
    if traffic.prefix_groups is not None or traffic.distinct:
        return ClassTexts(system, places=fresh_places(tokens, stream(seed, name, "places")))
    if traffic.documents is None:
        return ClassTexts(system)
    rng = stream(seed, name, "documents")
    drawn = draw_lengths(scaled(traffic.documents.tokens, length_ratio), rng, traffic.documents.count)
    kept = [min(length, room) for length in drawn]
    return ClassTexts(
        system=system,
        documents=_documents(tokens, rng, kept),
        questions=tuple(_questions(name, traffic, tokens, seed, rank) for rank in range(traffic.documents.count)),
        weights=_weights(traffic.documents),
        documents_cut=sum(length > room for length in drawn),
    )


def _documents(tokens: Sequence[int], rng: np.random.Generator, lengths: list[int]) -> tuple[Text, ...]:
    """Texts that all begin at another place: two documents with one beginning would share KV."""
    places = _places(tokens, max(lengths))
    if places < len(lengths):
        raise SpecError(f"a corpus of {len(tokens)} tokens is too short for {len(lengths)} documents of {max(lengths)}")
    starts = rng.choice(places, size=len(lengths), replace=False)
    return tuple(_at(tokens, int(start), length) for start, length in zip(starts, lengths, strict=True))


def _questions(name: str, traffic: TrafficClass, tokens: Sequence[int], seed: int, rank: int) -> tuple[Text, ...]:
    rng = stream(seed, name, "questions", rank)
    return tuple(cut_text(tokens, rng, draw_length(traffic.input, rng)) for _ in range(QUESTIONS_PER_DOCUMENT))


def _weights(documents: Documents) -> tuple[float, ...]:
    raw = [1 / rank**documents.popularity.zipf for rank in range(1, documents.count + 1)]
    return tuple(weight / sum(raw) for weight in raw)


def _places(tokens: Sequence[int], length: int) -> int:
    if len(tokens) < max(length, 1):
        raise SpecError(f"a corpus of {len(tokens)} tokens is too short for a text of {length}")
    return len(tokens) - length + 1


def _at(tokens: Sequence[int], start: int, length: int) -> Text:
    return tuple(map(int, tokens[start : start + length]))
