"""What an endless cache would find of each prompt, known before anything is sent.

Prompts in alphabetical order have their longest common prefix with a neighbour. Taking them away from the last in time
to the first leaves, at each step, only the earlier ones, so the neighbours that are left are the ones that count.
"""

from array import array
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from testbed.workload.request import PlannedRequest

_TOKEN_BYTES = array("I").itemsize


def with_hits(requests: Sequence[PlannedRequest], before: Sequence[PlannedRequest] = ()) -> tuple[PlannedRequest, ...]:
    """The requests with their `hit_tokens`; those `before` were asked earlier than all of them.

    Only prompts under the same cache salt share anything. A request counts as earlier by its place, though the answer
    to it may still be on its way: so this is the most that can be found of prompts. Answers are left out.
    """
    everyone = (*before, *requests)
    hits = [0] * len(everyone)
    by_salt: defaultdict[str | None, list[int]] = defaultdict(list)
    for place, request in enumerate(everyone):
        by_salt[request.cache_salt].append(place)
    for places in by_salt.values():
        found = earlier_prefixes([everyone[place].prompt for place in places])
        for place, tokens in zip(places, found, strict=True):
            hits[place] = tokens
    own = hits[len(before) :]
    return tuple(replace(request, hit_tokens=tokens) for request, tokens in zip(requests, own, strict=True))


def earlier_prefixes(prompts: Sequence[Sequence[int]]) -> list[int]:
    """For each prompt the tokens of the longest prefix that it shares with any earlier one."""
    texts = [array("I", prompt).tobytes() for prompt in prompts]
    order = sorted(range(len(texts)), key=texts.__getitem__)
    shared = [0, *(_shared(texts[left], texts[right]) for left, right in pairwise(order)), 0]
    left_of, right_of = list(range(-1, len(order) - 1)), list(range(1, len(order) + 1))
    rank_of = {place: rank for rank, place in enumerate(order)}
    found = [0] * len(texts)
    for place in reversed(range(len(texts))):
        rank = rank_of[place]
        left, right = left_of[rank], right_of[rank]
        # shared[i] is what stands between rank i and what is left of it; the gap after the last one is 0.
        found[place] = max(shared[rank], shared[right])
        shared[right] = min(shared[rank], shared[right])
        if left >= 0:
            right_of[left] = right
        if right < len(order):
            left_of[right] = left
    return found


def _shared(one: bytes, other: bytes) -> int:
    """Tokens at the beginning that are the same in both."""
    length = min(len(one), len(other))
    if one[:length] == other[:length]:
        return length // _TOKEN_BYTES
    differ = np.frombuffer(one[:length], np.uint8) != np.frombuffer(other[:length], np.uint8)
    return int(differ.argmax()) // _TOKEN_BYTES
