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

Text = tuple[int, ...]


@dataclass(frozen=True)
class ClassTexts:
    """What the requests of one class share. `weights` are the chances of the documents, most popular first."""

    system: Text
    documents: tuple[Text, ...] = ()
    questions: tuple[tuple[Text, ...], ...] = ()
    weights: tuple[float, ...] = ()
    documents_cut: int = 0


def cut_text(tokens: Sequence[int], rng: np.random.Generator, length: int) -> Text:
    """`length` tokens in a row from a place that `rng` draws.

    Raises: SpecError if the corpus is shorter than that.
    """
    return _at(tokens, int(rng.integers(0, _places(tokens, length))), length)


def class_texts(
    name: str, traffic: TrafficClass, tokens: Sequence[int], *, seed: int, length_ratio: float, max_model_len: int
) -> ClassTexts:
    """Draw the shared texts of one class; no other class has a part in it."""
    room = document_room(traffic, max_model_len) if traffic.documents else max_model_len - system_tokens(traffic) - 1
    if room < 1:
        raise SpecError(f"a context of {max_model_len} tokens leaves no room for a request", where=f"class {name}")
    system = cut_text(tokens, stream(seed, name, "system"), system_tokens(traffic))
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
    return tuple(int(token) for token in tokens[start : start + length])
