"""Mixed traffic: every request of an arm, its prompt to the token and its time, from a workload and a seed.

A plan is one list. How many processes send it, and in what order answers come, has no part in it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from testbed.spec.workload import Workload
from testbed.workload.draft import draft, numbered
from testbed.workload.hits import with_hits
from testbed.workload.request import PlannedRequest
from testbed.workload.scale import Scale
from testbed.workload.sessions import Source, plan_fill
from testbed.workload.texts import Text, class_texts


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

    `PlannedRequest.document` counts through `documents`. `duration_s` is at least that of the scale; where a number of
    requests is wanted, it ends when the next one would have been due, and for a closed loop it is an estimate.
    """

    documents: tuple[Text, ...]
    requests: tuple[PlannedRequest, ...]
    fill: tuple[PlannedRequest, ...]
    cut: Cut
    duration_s: float


def plan_requests(
    workload: Workload, *, seed: int, scale: Scale, tokens: Sequence[int], max_model_len: int, filled: bool = False
) -> WorkloadPlan:
    """Plan one arm. Prompts are cut from `tokens`, the tokenised corpus; prompt + max_tokens fits `max_model_len`.

    With `filled`, the fill is asked before the requests, so that they can hit it.
    Raises: SpecError if the corpus or the context is too short for a text of the workload.
    """
    sources = _sources(workload, seed, scale, tokens, max_model_len)
    made = draft(workload, sources, seed, scale)
    made.cut["documents"] += sum(source.texts.documents_cut for source in sources.values())
    fill = with_hits(numbered(request for source in sources.values() for request in plan_fill(source)))
    return WorkloadPlan(
        documents=tuple(text for source in sources.values() for text in source.texts.documents),
        requests=with_hits(made.requests, before=fill if filled else ()),
        fill=fill,
        cut=Cut(**made.cut),
        duration_s=made.duration_s,
    )


def _sources(
    workload: Workload, seed: int, scale: Scale, tokens: Sequence[int], max_model_len: int
) -> dict[str, Source]:
    texts = [
        class_texts(name, traffic, tokens, seed=seed, length_ratio=scale.length_ratio, max_model_len=max_model_len)
        for name, traffic in workload.classes.items()
    ]
    firsts = accumulate((len(of_class.documents) for of_class in texts), initial=0)
    return {
        name: Source(name, traffic, of_class, first, tokens, seed, scale, max_model_len)
        for (name, traffic), of_class, first in zip(workload.classes.items(), texts, firsts, strict=False)
    }
