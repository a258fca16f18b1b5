"""The requests of one session: the turns of a chat, the question about a document, or a round of prefix groups.

Each session draws from streams of its own, named by class and number. So another duration, rate or class leaves the
prompts of all others as they were; and who asks and who leaves draws apart from what is asked.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from testbed.errors import SpecError
from testbed.spec.workload import GROUPS, PrefixGroups, TrafficClass, group_name
from testbed.workload.groups import Round, make_round
from testbed.workload.lengths import draw_length, scaled, shorter_answer, shorter_text
from testbed.workload.request import PlannedRequest
from testbed.workload.scale import Scale, document_room
from testbed.workload.streams import stream
from testbed.workload.texts import ClassTexts, Text, cut_text, distinct_text

Session = tuple[PlannedRequest, ...]


@dataclass(frozen=True)
class Source:
    """All that the sessions of one class are drawn from."""

    name: str
    traffic: TrafficClass
    texts: ClassTexts
    first_document: int
    tokens: Sequence[int]
    seed: int
    scale: Scale
    max_model_len: int

    @property
    def counted_class(self) -> str | None:
        """The traffic class of which a plan needs some requests, where there is one."""
        if self.traffic.prefix_groups is not None:
            return group_name(self.name, GROUPS[-1])
        return self.name if self.texts.documents else None

    def stream(self, *names: str | int) -> np.random.Generator:
        """A random stream of this class."""
        return stream(self.seed, self.name, *names)


@dataclass(frozen=True)
class _Part:
    """One request before it is fitted into the context: all that stands before the new text, and what is wanted."""

    traffic_class: str
    before: Text
    new: Text
    answer: int
    document: int | None = None


def plan_session(source: Source, number: int, due_s: float, duration_s: float, counts: Counter[str]) -> Session:
    """The requests of one session that are due before `duration_s`, numbered from 0; `counts` gets what was cut.

    `after` of a request that waits for the answer to the one before it is that one's number in the session.
    """
    traffic, asked = source.traffic, _Asker(source, number)
    made: list[PlannedRequest] = []
    for part in _parts(source, number, made, counts):
        room = source.max_model_len - len(part.before)
        if due_s >= duration_s or room < 2:
            counts["too_late" if due_s >= duration_s else "too_long"] += traffic.session_requests - len(made)
            break
        new = part.new[: max(1, room - part.answer)]
        max_tokens = min(part.answer, room - len(new))
        counts["inputs"] += len(new) < len(part.new)
        counts["outputs"] += max_tokens < part.answer
        made.append(PlannedRequest(
            index=len(made), traffic_class=part.traffic_class, scheduled_at_s=due_s, prompt=part.before + new,
            max_tokens=max_tokens, stop=traffic.stop, timeout_s=traffic.timeout, document=part.document,
            **asked.words(len(made), max_tokens),
        ))
        if made[-1].leaves_after_tokens is not None:
            break
        due_s += traffic.think + max_tokens * source.scale.decode_s_per_token
    return tuple(made)


def plan_fill(source: Source) -> Iterator[PlannedRequest]:
    """Each document once; where tenants share nothing, once for each of them."""
    tenants = source.traffic.tenants
    askers = range(tenants.count) if tenants is not None and tenants.sharing == "isolated" else (None,)
    for asker in askers:
        name = None if asker is None else _tenant(asker)
        for rank, document in enumerate(source.texts.documents):
            yield PlannedRequest(
                index=0, traffic_class=source.name, scheduled_at_s=0.0, prompt=source.texts.system + document,
                max_tokens=1, stop="natural", timeout_s=source.traffic.timeout, measured=False,
                document=source.first_document + rank, tenant=name, cache_salt=name,
            )


class _Asker:
    """Who asks the requests of one session, and whether they wait for answers, or leave."""

    def __init__(self, source: Source, number: int) -> None:
        self._traffic = source.traffic
        self._ratio = source.scale.text_ratio
        self._number = number
        self._leaving = None if source.traffic.leaves is None else source.stream("leaves", number)
        tenants = source.traffic.tenants
        drawn = None if tenants is None else int(source.stream("tenant", number).integers(tenants.count))
        self._tenant = None if drawn is None else _tenant(drawn)
        self._salt = self._tenant if tenants is not None and tenants.sharing == "isolated" else None

    def words(self, place: int, max_tokens: int) -> dict[str, Any]:
        """Of the request at one place of the session all that its prompt and its time do not depend on."""
        traffic = self._traffic
        many = traffic.session_requests > 1
        waits = place > 0 and traffic.release == "after_answer"
        return {
            "session": self._number if many else None,
            "turn": place + 1 if many else None,
            "after": place - 1 if waits else None,
            "think_s": traffic.think if waits else 0.0,
            "tenant": self._tenant,
            "cache_salt": self._salt,
            "priority": traffic.priority,
            "leaves_after_tokens": self._leaves_after(max_tokens),
        }

    def _leaves_after(self, max_tokens: int) -> int | None:
        """Tokens after which they leave; None where they stay, or the answer is over by then."""
        leaves = self._traffic.leaves
        if leaves is None or self._leaving is None:
            return None
        chance = self._leaving.random()
        tokens = shorter_text(draw_length(leaves.after_tokens, self._leaving), self._ratio)
        return tokens if chance < leaves.share and tokens < max_tokens else None


def _tenant(number: int) -> str:
    return f"tenant-{number}"


def _parts(source: Source, number: int, made: list[PlannedRequest], counts: Counter[str]) -> Iterator[_Part]:
    groups = source.traffic.prefix_groups
    return _turns(source, number, made) if groups is None else _groups(source, number, groups, counts)


def _turns(source: Source, number: int, made: list[PlannedRequest]) -> Iterator[_Part]:
    """Each turn's prompt holds all earlier inputs and planned answers, as `made` has them."""
    traffic, texts, ratio = source.traffic, source.texts, source.scale.text_ratio
    rng = source.stream("session", number)
    rank = int(rng.choice(len(texts.documents), p=texts.weights)) if texts.documents else None
    before = texts.system + (texts.documents[rank] if rank is not None else ())
    for turn in range(traffic.turn_count):
        if rank is None:
            length = shorter_text(draw_length(traffic.input, rng), ratio)
            if traffic.distinct and turn == 0:
                new = distinct_text(source.tokens, rng, length, texts.places, number)
            else:
                new = cut_text(source.tokens, rng, length)
        else:
            new = texts.questions[rank][int(rng.integers(len(texts.questions[rank])))]
        answer = shorter_answer(draw_length(traffic.output, rng), ratio)
        yield _Part(source.name, before, new, answer, None if rank is None else source.first_document + rank)
        before = made[-1].prompt + cut_text(source.tokens, rng, made[-1].max_tokens)


def _groups(source: Source, number: int, groups: PrefixGroups, counts: Counter[str]) -> Iterator[_Part]:
    rng = source.stream("session", number)
    made = _round(source, number, groups, rng, counts)
    for group in GROUPS:
        prefix, question = made.of(group)
        answer = draw_length(source.traffic.output, rng)
        yield _Part(group_name(source.name, group), source.texts.system + prefix, question, answer)


def _round(
    source: Source, number: int, groups: PrefixGroups, rng: np.random.Generator, counts: Counter[str]
) -> Round:
    places = source.texts.places[2 * number : 2 * number + 2]
    if len(places) < 2:
        raise SpecError(f"a corpus of {len(source.tokens)} tokens is too short for {number + 1} rounds of prefixes")
    wanted = draw_length(scaled(groups.prefix, source.scale.length_ratio), rng)
    room = document_room(source.traffic, source.max_model_len)
    counts["documents"] += wanted > room
    lengths = min(wanted, room), draw_length(source.traffic.input, rng)
    return make_round(source.tokens, (places[0], places[1]), rng, lengths, groups.change_at)
