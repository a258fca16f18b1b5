"""What a request asks for: the body of a completion or a chat, with ids, text or messages for a prompt."""

import zlib
from collections.abc import Sequence
from typing import Any

import msgspec

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
_DEFAULT_TOKENS = 16
_SPACES = b" \t\r\n"


class _StreamOptions(msgspec.Struct):
    include_usage: bool = False
    continuous_usage_stats: bool = False


class _Message(msgspec.Struct):
    content: str | list[dict[str, Any]] | None = None


class _Body(msgspec.Struct):
    model: str = ""
    prompt: msgspec.Raw = msgspec.Raw(b"")
    messages: list[_Message] = []
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    min_tokens: int | None = None
    ignore_eos: bool | None = None
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    return_token_ids: bool | None = None


class Asked(msgspec.Struct, frozen=True):
    """`seed` stands for the prompt: equal prompts have equal ones, however they were spelt."""

    model: str
    chat: bool
    seed: int
    prompt_tokens: int
    max_tokens: int
    min_tokens: int | None
    ignore_eos: bool
    stream: bool
    usage: bool
    running_usage: bool
    token_ids: bool


_DECODER = msgspec.json.Decoder(_Body)


def seed_of(prompt: Sequence[int] | str) -> int:
    """The seed of a prompt."""
    text = prompt if isinstance(prompt, str) else "[" + ",".join(map(str, prompt)) + "]"
    return zlib.crc32(text.encode())


def read_asked(path: str, body: bytes) -> Asked:
    """Read the body of a POST to `path`.

    Raises: msgspec.MsgspecError if it is no JSON, or not such a body.
    """
    asked = _DECODER.decode(body)
    chat = path == CHAT
    seed, prompt_tokens = _messages(asked.messages) if chat else _prompt(bytes(asked.prompt))
    wanted = asked.max_completion_tokens if asked.max_completion_tokens is not None else asked.max_tokens
    options = asked.stream_options
    return Asked(
        model=asked.model, chat=chat, seed=seed, prompt_tokens=prompt_tokens,
        max_tokens=_DEFAULT_TOKENS if wanted is None else wanted, min_tokens=asked.min_tokens,
        ignore_eos=asked.ignore_eos is True, stream=asked.stream is True,
        usage=options is not None and options.include_usage,
        running_usage=options is not None and options.continuous_usage_stats,
        token_ids=asked.return_token_ids is True,
    )


def _prompt(raw: bytes) -> tuple[int, int]:
    """Seed and length of a prompt: ids, text, or a list of one of these. Long lists of ids are not taken apart."""
    if raw.startswith(b"["):
        ids = raw.translate(None, _SPACES)
        if ids[1:2] not in (b"[", b'"'):
            return zlib.crc32(ids), 0 if ids == b"[]" else ids.count(b",") + 1
        return _prompt(bytes(msgspec.json.decode(raw, type=list[msgspec.Raw])[0]))
    text = msgspec.json.decode(raw, type=str)
    return seed_of(text), len(text.split())


def _messages(messages: list[_Message]) -> tuple[int, int]:
    text = "\n".join(_text(message) for message in messages)
    return seed_of(text), len(text.split())


def _text(message: _Message) -> str:
    if isinstance(message.content, list):
        return " ".join(str(part["text"]) for part in message.content if "text" in part)
    return "" if message.content is None else message.content
