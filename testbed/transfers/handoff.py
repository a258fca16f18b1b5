"""The form that all handoffs have: what the prefill leg and the decode leg of one request are asked.

A body is kept as the raw JSON of each of its keys, so that a long prompt is carried along and never parsed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from testbed.errors import RunError, SpecError

Body = dict[str, msgspec.Raw]

_BODY = msgspec.json.Decoder(Body)
# What is about the length or the form of an answer that nobody reads.
_NOT_FOR_PREFILL = ("stream_options", "n", "best_of", "stop", "logprobs", "top_logprobs", "prompt_logprobs", "echo")


@dataclass(frozen=True)
class Link:
    """What ties the two legs of one request together.

    `peer_id` is who the prefill engine said that it is and `peer_url` where decode finds it, for transfers that ask.
    """

    transfer_id: str
    peer_id: str | None = None
    peer_url: str | None = None


@dataclass(frozen=True)
class PeerQuestion:
    """How a prefill engine tells who it is: GET `path` at its bootstrap address; `read` finds it in the answer."""

    path: str
    read: Callable[[bytes], str]


@dataclass(frozen=True)
class Handoff:
    """The protocol of one transfer.

    `together`: both legs leave at once, else decode waits for the whole answer of prefill and gets it. `single`: one
    request hands over one sequence, since the blocks are given away once. `question` is asked where each request must
    know who the prefill engine is at that moment. `peer` tells who decode is told that prefill is, where it is told.
    """

    name: str
    together: bool
    single: bool
    question: PeerQuestion | None
    prefill: Callable[[Body, Link], Body]
    decode: Callable[[Body, Link, bytes], Body]
    peer: Callable[[Link, bytes], str | None]


class HandoffError(RunError):
    """Prefill answered, but did not say what decode needs."""


def read_body(text: bytes) -> Body:
    """The keys of a JSON object, each with its raw text.

    Raises: SpecError for anything else.
    """
    try:
        return _BODY.decode(text)
    except msgspec.MsgspecError as problem:
        raise SpecError(f"the body is not a JSON object: {problem}") from problem


def raw(value: Any) -> msgspec.Raw:
    """A plain value as raw JSON, to stand in a body."""
    return msgspec.Raw(msgspec.json.encode(value))


def one_token(body: Body) -> Body:
    """The same request, for one token that nobody reads: each spelling of a limit is 1, and nothing is streamed.

    The least number of tokens is 1 too: the first token can then not be one that ends the answer, so that the engine
    ends it by its length, which is when it hands its blocks over.
    """
    kept = {key: value for key, value in body.items() if key not in _NOT_FOR_PREFILL}
    forced = {"max_tokens": 1, "min_tokens": 1, "stream": False}
    if "max_completion_tokens" in body:
        forced["max_completion_tokens"] = 1
    return kept | {key: raw(value) for key, value in forced.items()}


def with_params(body: Body, params: dict[str, Any] | msgspec.Raw) -> Body:
    """The same request with these transfer parameters, in place of any that a client gave."""
    return body | {"kv_transfer_params": params if isinstance(params, msgspec.Raw) else raw(params)}


def several_sequences(body: Body) -> str | None:
    """Why the request is for more than one sequence, or None if it is for one."""
    for key in ("n", "best_of"):
        if key in body and bytes(body[key]).strip() not in (b"1", b"null"):
            return f"{key} is {bytes(body[key]).decode()}"
    if bytes(body.get("use_beam_search", b"false")).strip() == b"true":
        return "use_beam_search is true"
    prompt = bytes(body.get("prompt", b"")).strip()
    if prompt[:1] == b"[" and prompt[1:].lstrip()[:1] in (b"[", b'"'):
        count = len(msgspec.json.decode(prompt, type=list[msgspec.Raw]))
        return f"it has {count} prompts" if count > 1 else None
    return None
