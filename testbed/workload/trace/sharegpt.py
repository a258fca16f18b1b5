"""ShareGPT's JSON: a list of talks. Roles are read, never guessed from the place, and no turn is lost without a word.

What is played are the lengths and the turns: each message is a piece of its own, equal texts are equal pieces, and the
words come from the corpus like those of every other trace.
"""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice, takewhile
from typing import Any

from testbed.spec.trace import Trace
from testbed.spec.tree import Problem
from testbed.workload.arrivals import arrival_times_s
from testbed.workload.streams import stream
from testbed.workload.trace.records import Conversation, Reading, TraceRow

Count = Callable[[str], int]

_ROLES = {
    "human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant", "chatgpt": "assistant",
    "system": "system",
}
_KEYS = (("from", "value"), ("role", "content"))
CHARACTERS_PER_TOKEN = 4


def estimated_tokens(text: str) -> int:
    """For a first look without a tokenizer: four characters a token, as in English prose."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def read_sharegpt(text: str, *, where: str) -> Reading:
    """All talks, and a problem for each that can't be read, by its number from 1."""
    try:
        found = json.loads(text)
    except json.JSONDecodeError as problem:
        return Reading(problems=(Problem(f"{where}:{problem.lineno}", f"is not JSON: {problem.msg}"),))
    except RecursionError:
        return Reading(problems=(Problem(where, "is nested too deeply"),))
    if not isinstance(found, list):
        return Reading(problems=(Problem(f"{where}:1", "is not a list of conversations"),))
    read = [_conversation(number, one) for number, one in enumerate(found, start=1)]
    return Reading(
        conversations=tuple(one for one in read if isinstance(one, Conversation)),
        problems=tuple(
            Problem(where, f"conversation {number}: {one}") for number, one in enumerate(read, start=1)
            if isinstance(one, str)
        ),
    )


def _conversation(number: int, found: Any) -> Conversation | str:
    """The talk, or what is wrong with it."""
    messages = found.get("conversations", found.get("messages")) if isinstance(found, dict) else None
    if not isinstance(messages, list):
        return "has no list of conversations"
    read: list[tuple[str, str]] = []
    for message in messages:
        keys = next((keys for keys in _KEYS if isinstance(message, dict) and keys[0] in message), None)
        if keys is None or not all(isinstance(message.get(key), str) for key in keys):
            return "has a message without from and value"
        if message[keys[0]] not in _ROLES:
            return f'has a message from "{message[keys[0]]}"; known are {", ".join(_ROLES)}'
        read.append((_ROLES[message[keys[0]]], message[keys[1]]))
    if all(role != "user" for role, _ in read):
        return "has no question of a user"
    return Conversation(number, tuple(read))


@dataclass(frozen=True)
class Turns:
    """The requests of some talks in order of time, and what was left out of them."""

    rows: tuple[TraceRow, ...]
    later_turns: int
    without_answer: int
    never_begun: int


@dataclass(frozen=True)
class _Asked:
    """One question with all that came before it."""

    ids: tuple[int, ...]
    ends: tuple[int, ...]
    output_tokens: int


def turns_of(
    conversations: Sequence[Conversation], spec: Trace, *, name: str, seed: int, count: Count, decode_s_per_token: float
) -> Turns:
    """Make requests of the first `limit` talks: one for each question that has an answer or gets a default length.

    Each prompt holds all that was said before. A talk begins when the arrival process says so; the next turn is due
    `think` after the planned answer was read.
    """
    talks = list(islice(conversations, spec.limit))
    starts_s = list(takewhile(math.isfinite, islice(_starts_s(spec, name, seed), len(talks))))
    pieces = _Pieces(count)
    rows: list[TraceRow] = []
    later = unanswered = 0
    for talk, start_s in zip(talks, starts_s, strict=False):
        asked = list(_asked(talk, pieces, spec.default_output))
        usable = [one for one in asked if one is not None]
        kept = usable if spec.turns == "all" else usable[:1]
        unanswered += len(asked) - len(usable)
        later += len(usable) - len(kept)
        rows += _timed(talk.number, kept, start_s, spec.think, decode_s_per_token)
    return Turns(
        tuple(sorted(rows, key=lambda row: row.at_ns)), later, unanswered, never_begun=len(talks) - len(starts_s)
    )


def _starts_s(spec: Trace, name: str, seed: int) -> Iterator[float]:
    if spec.arrival is None:
        raise AssertionError("the spec of conversations has arrivals")
    rng = stream(seed, name, "arrivals")
    return arrival_times_s(spec.arrival, rng, duration_s=1.0 if spec.window.end is None else spec.window.end)


class _Pieces:
    """Numbers messages, equal ones alike, and counts each once."""

    def __init__(self, count: Count) -> None:
        self._count = count
        self._known: dict[tuple[str, str], tuple[int, int]] = {}

    def piece(self, message: tuple[str, str]) -> tuple[int, int]:
        """Its number, and its tokens: at least 1, since even an empty message has a frame around it."""
        if message not in self._known:
            self._known[message] = (len(self._known), max(1, self._count(message[1])))
        return self._known[message]


def _asked(talk: Conversation, pieces: _Pieces, default_output: int | None) -> Iterator[_Asked | None]:
    """Each question of a user; None for one whose answer has no length."""
    numbers, tokens = zip(*(pieces.piece(message) for message in talk.messages), strict=True)
    ends = tuple(accumulate(tokens))
    for place, (role, _) in enumerate(talk.messages):
        if role == "user":
            answered = place + 1 < len(talk.messages) and talk.messages[place + 1][0] == "assistant"
            output = tokens[place + 1] if answered else default_output
            yield None if output is None else _Asked(numbers[: place + 1], ends[: place + 1], output)


def _timed(
    number: int, asked: Iterable[_Asked], start_s: float, think_s: float, decode_s_per_token: float
) -> Iterator[TraceRow]:
    due_s = start_s
    for turn, one in enumerate(asked, start=1):
        yield TraceRow(
            number, round(due_s * 1e9), one.ends[-1], one.output_tokens, one.ids, one.ends, session=number, turn=turn
        )
        due_s += think_s + one.output_tokens * decode_s_per_token
