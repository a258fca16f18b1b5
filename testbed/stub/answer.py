"""The bytes of an answer, made beforehand: each piece is one event in an HTTP chunk of its own.

An answer depends on its prompt alone. The few hundred tokens of the vocabulary make few different events, and the whole
answers that were asked for last are kept, so that serving one costs next to nothing.
"""

from collections.abc import Sequence
from functools import lru_cache
from http import HTTPStatus
from typing import Any, NamedTuple

import msgspec

from testbed.stub.asked import seed_of

VOCABULARY = 500
_STRIDE = 7919
_KEPT_ANSWERS, _KEPT_EVENTS = 8_192, 16_384
STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
_END = b"data: [DONE]\n\n"
_LAST_CHUNK = b"0\r\n\r\n"


class Shape(NamedTuple):
    """All that the bytes of an answer depend on. `finish` is stop or length; `step` the tokens of each chunk."""

    seed: int
    tokens: int
    step: int
    finish: str
    prompt_tokens: int
    chat: bool
    token_ids: bool
    usage: bool
    running_usage: bool


def answer_tokens(prompt: Sequence[int] | str, count: int) -> list[int]:
    """The ids that the stand-in answers: always the same for one prompt."""
    return _tokens(seed_of(prompt), count)


def _tokens(seed: int, count: int) -> list[int]:
    return [(seed + _STRIDE * index) % VOCABULARY for index in range(count)]


@lru_cache(_KEPT_ANSWERS)
def stream_pieces(shape: Shape) -> tuple[bytes, ...]:
    """One piece for each chunk of tokens; the last has usage and the end of the stream too."""
    tokens = _tokens(shape.seed, shape.tokens)
    starts = range(0, len(tokens), shape.step)
    pieces = [_piece(shape, tuple(tokens[first : first + shape.step]), first) for first in starts]
    end = (_usage_event(shape) if shape.usage else b"") + _chunk(_END) + _LAST_CHUNK
    return (*pieces[:-1], pieces[-1] + end) if pieces else (end,)


@lru_cache(_KEPT_ANSWERS)
def burst(shape: Shape) -> bytes:
    """The whole response with its head."""
    return STREAM_HEAD + (role_event() if shape.chat else b"") + b"".join(stream_pieces(shape))


def _piece(shape: Shape, part: tuple[int, ...], first: int) -> bytes:
    so_far = first + len(part)
    finish = shape.finish if so_far == shape.tokens else None
    if shape.running_usage:
        return _tokens_event(part, finish, shape.chat, shape.token_ids, (shape.prompt_tokens, so_far))
    return _tokens_event(part, finish, shape.chat, shape.token_ids, None)


@lru_cache(_KEPT_EVENTS)
def _tokens_event(
    part: tuple[int, ...], finish: str | None, chat: bool, token_ids: bool, usage: tuple[int, int] | None
) -> bytes:
    text = token_text(part)
    choice: dict[str, Any] = {"index": 0, **({"delta": {"content": text}} if chat else {"text": text})}
    choice |= {"logprobs": None, "finish_reason": finish}
    if token_ids:
        choice["token_ids"] = part
    counts = {} if usage is None else {"usage": usage_counts(*usage)}
    return event({**_name(chat, stream=True), "choices": [choice], **counts})


@lru_cache(1)
def role_event() -> bytes:
    """What opens the stream of a chat: a chunk with a role and without any token."""
    delta = {"role": "assistant", "content": ""}
    return event({**_name(True, stream=True), "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})


def _usage_event(shape: Shape) -> bytes:
    usage = usage_counts(shape.prompt_tokens, shape.tokens)
    return event({**_name(shape.chat, stream=True), "choices": [], "usage": usage})


def error_piece(message: str) -> bytes:
    """An error inside a stream that has begun with 200, and the end of the stream."""
    return event({"error": {"message": message, "code": 500}}) + _chunk(_END) + _LAST_CHUNK


def plain_answer(shape: Shape) -> bytes:
    """The whole response of an answer that is not streamed."""
    tokens = _tokens(shape.seed, shape.tokens)
    text = token_text(tokens)
    said = {"message": {"role": "assistant", "content": text}} if shape.chat else {"text": text}
    choice: dict[str, Any] = {"index": 0, **said, "finish_reason": shape.finish}
    if shape.token_ids:
        choice["token_ids"] = tokens
    usage = usage_counts(shape.prompt_tokens, shape.tokens)
    return json_response(200, {**_name(shape.chat, stream=False), "choices": [choice], "usage": usage})


def json_response(status: int, content: Any) -> bytes:
    """A whole response with a JSON body."""
    body = msgspec.json.encode(content)
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "Unknown"
    head = f"HTTP/1.1 {status} {phrase}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def event(content: Any) -> bytes:
    """One event in one HTTP chunk."""
    return _chunk(b"data: " + msgspec.json.encode(content) + b"\n\n")


def _chunk(content: bytes) -> bytes:
    return b"%x\r\n" % len(content) + content + b"\r\n"


def token_text(tokens: Sequence[int]) -> str:
    """The text of tokens: one word each."""
    return "".join(f" {token}" for token in tokens)


def usage_counts(prompt_tokens: int, tokens: int) -> dict[str, int]:
    """Usage as an engine tells it."""
    return {
        "prompt_tokens": prompt_tokens, "completion_tokens": tokens, "total_tokens": prompt_tokens + tokens,
    }


def _name(chat: bool, *, stream: bool) -> dict[str, Any]:
    kind = ("chat.completion.chunk" if stream else "chat.completion") if chat else "text_completion"
    return {"id": "stub", "object": kind, "created": 0, "model": "stub"}
