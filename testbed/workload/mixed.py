"""Mixed traffic: every request of an arm, its prompt to the token and its time, from a workload and a seed.

Each session draws from a stream of its own, named by class and number. So another duration, rate or class leaves the
prompts of all others as they were.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, takewhile

from testbed.spec.workload import TrafficClass, Workload
from testbed.workload.arrivals import arrival_times_s
from testbed.workload.lengths import draw_length
from testbed.workload.request import PlannedRequest
from testbed.workload.scale import Scale
from testbed.workload.streams import stream
from testbed.workload.texts import ClassTexts, Text, class_texts, cut_text

EXTENSION_RATIO = 1.05
"""The duration grows by this until enough requests for documents fall inside."""


@dataclass(frozen=True)
class Cut:
    """What had to give: texts and answers shortened to fit the context, and requests that were dropped.

    `too_long` turns had no room left at all; `too_late` ones were due after the duration.
    """

    documents: int = 0
    inputs: int = 0
    outputs: int = 0
    too_long: int = 0
    too_late: int = 0


@dataclass(frozen=True)
class WorkloadPlan:
    """All requests of an arm, in order of time. `fill` asks each document once and is not measured.

    `PlannedRequest.document` counts through `documents`. `duration_s` is at least that of the scale.
    """

    documents: tuple[Text, ...]
    requests: tuple[PlannedRequest, ...]
    fill: tuple[PlannedRequest, ...]
    cut: Cut
    duration_s: float


@dataclass(frozen=True)
class _Source:
    """All that the sessions of one class are drawn from."""

    name: str
    traffic: TrafficClass
    texts: ClassTexts
    first_document: int
    tokens: Sequence[int]
    seed: int
    scale: Scale
    max_model_len: int


def plan_requests(
    workload: Workload, *, seed: int, scale: Scale, tokens: Sequence[int], max_model_len: int
) -> WorkloadPlan:
    """Plan one arm. Prompts are cut from `tokens`, the tokenised corpus; prompt + max_tokens fits `max_model_len`.

    Raises: SpecError if the corpus or the context is too short for a text of the workload.
    """
    sources = _sources(workload, seed, scale, tokens, max_model_len)
    duration_s = scale.duration_s
    requests, counts = _all_sessions(sources, duration_s)
    while not _enough(sources, requests, scale.min_documents):
        duration_s *= EXTENSION_RATIO
        requests, counts = _all_sessions(sources, duration_s)
    counts["documents"] = sum(source.texts.documents_cut for source in sources)
    return WorkloadPlan(
        documents=tuple(text for source in sources for text in source.texts.documents),
        requests=_numbered(sorted(requests, key=_due)),
        fill=_numbered(request for source in sources for request in _fill(source)),
        cut=Cut(**counts),
        duration_s=duration_s,
    )


def _sources(
    workload: Workload, seed: int, scale: Scale, tokens: Sequence[int], max_model_len: int
) -> list[_Source]:
    texts = [
        class_texts(name, traffic, tokens, seed=seed, length_ratio=scale.length_ratio, max_model_len=max_model_len)
        for name, traffic in workload.classes.items()
    ]
    firsts = accumulate((len(of_class.documents) for of_class in texts), initial=0)
    return [
        _Source(name, traffic, of_class, first, tokens, seed, scale, max_model_len)
        for (name, traffic), of_class, first in zip(workload.classes.items(), texts, firsts, strict=False)
    ]


def _all_sessions(sources: list[_Source], duration_s: float) -> tuple[list[PlannedRequest], Counter[str]]:
    counts: Counter[str] = Counter()
    requests = [request for source in sources for request in _sessions(source, duration_s, counts)]
    return requests, counts


def _sessions(source: _Source, duration_s: float, counts: Counter[str]) -> Iterator[PlannedRequest]:
    arrivals_s = arrival_times_s(
        source.traffic.arrival, stream(source.seed, source.name, "arrivals"), source.scale.rate_ratio
    )
    for session, arrival_s in enumerate(takewhile(lambda at_s: at_s < duration_s, arrivals_s)):
        yield from _turns(source, session, arrival_s, duration_s, counts)


def _turns(
    source: _Source, session: int, due_s: float, duration_s: float, counts: Counter[str]
) -> Iterator[PlannedRequest]:
    """The requests of one session: each turn's prompt holds all earlier inputs and planned answers."""
    traffic, texts = source.traffic, source.texts
    rng = stream(source.seed, source.name, "session", session)
    rank = int(rng.choice(len(texts.documents), p=texts.weights)) if texts.documents else None
    prompt = texts.system + (texts.documents[rank] if rank is not None else ())
    for turn in range(1, traffic.turns + 1):
        if rank is None:
            drawn = cut_text(source.tokens, rng, draw_length(traffic.input, rng))
        else:
            drawn = texts.questions[rank][int(rng.integers(len(texts.questions[rank])))]
        wanted = draw_length(traffic.output, rng)
        room = source.max_model_len - len(prompt)
        if due_s >= duration_s or room < 2:
            counts["too_late" if due_s >= duration_s else "too_long"] += traffic.turns - turn + 1
            return
        new = drawn[: max(1, room - wanted)]
        max_tokens = min(wanted, room - len(new))
        counts["inputs"] += len(new) < len(drawn)
        counts["outputs"] += max_tokens < wanted
        prompt += new
        yield PlannedRequest(
            index=0, traffic_class=source.name, scheduled_at_s=due_s, prompt=prompt, max_tokens=max_tokens,
            stop=traffic.stop, timeout_s=traffic.timeout,
            document=None if rank is None else source.first_document + rank,
            session=session if traffic.turns > 1 else None, turn=turn if traffic.turns > 1 else None,
        )
        prompt += cut_text(source.tokens, rng, max_tokens)
        due_s += traffic.think + max_tokens * source.scale.decode_s_per_token


def _fill(source: _Source) -> Iterator[PlannedRequest]:
    for rank, document in enumerate(source.texts.documents):
        yield PlannedRequest(
            index=0, traffic_class=source.name, scheduled_at_s=0.0, prompt=source.texts.system + document, max_tokens=1,
            stop="natural", timeout_s=source.traffic.timeout, measured=False, document=source.first_document + rank,
        )


def _enough(sources: list[_Source], requests: list[PlannedRequest], min_documents: int) -> bool:
    found = Counter(request.traffic_class for request in requests)
    return all(found[source.name] >= min_documents for source in sources if source.texts.documents)


def _due(request: PlannedRequest) -> tuple[float, str]:
    """Order of sending. Equal times of one class keep the order of their sessions, since sorting is stable."""
    return request.scheduled_at_s, request.traffic_class


def _numbered(requests: Iterator[PlannedRequest] | list[PlannedRequest]) -> tuple[PlannedRequest, ...]:
    return tuple(replace(request, index=index) for index, request in enumerate(requests))
