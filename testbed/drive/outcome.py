"""What came of a request: its stream folded into one answer, and the answer judged as exactly one outcome.

Reads the chunks of /v1/completions and of /v1/chat/completions alike. A chunk is not a token: tokens are counted from
`token_ids`, else from the running usage; where neither tells, the count is Missing.
"""

from dataclasses import dataclass, replace
from typing import Literal, get_args

import msgspec

from testbed.drive.sse import SseEvent
from testbed.missing import Missing

Kind = Literal["ok", "failed", "timed_out", "cancelled", "rejected", "not_sent"]
KINDS: tuple[Kind, ...] = get_args(Kind)

GOOD_ENDS = ("stop", "length")
DONE = b"[DONE]"
REJECTED_STATUS = 429


class PromptDetails(msgspec.Struct, frozen=True):
    """The part of usage that tells of reuse."""

    cached_tokens: int | None = None


class Usage(msgspec.Struct, frozen=True):
    """The server's own count of tokens; in a stream the last one holds."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: PromptDetails | None = None


class _Delta(msgspec.Struct, frozen=True):
    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None


class _Choice(msgspec.Struct, frozen=True):
    text: str | None = None
    delta: _Delta | None = None
    token_ids: list[int] | None = None
    finish_reason: str | None = None


class _Error(msgspec.Struct, frozen=True):
    message: str | None = None


class _Chunk(msgspec.Struct, frozen=True):
    choices: list[_Choice] = []
    usage: Usage | None = None
    error: _Error | str | None = None
    object: str | None = None
    message: str | None = None


@dataclass(frozen=True)
class Chunk:
    """One chunk that brought tokens. `tokens` is None where this chunk alone does not tell how many."""

    at_ns: int
    text: str
    tokens: int | None


@dataclass(frozen=True)
class Answer:
    """A stream as far as it came. `error` is what the server said inside the stream."""

    chunks: tuple[Chunk, ...] = ()
    token_ids: tuple[int, ...] = ()
    finish_reason: str | None = None
    usage: Usage | None = None
    done: bool = False
    error: str | None = None

    @property
    def text(self) -> str:
        """All text of the answer."""
        return "".join(chunk.text for chunk in self.chunks)

    @property
    def first_token_at_ns(self) -> int | None:
        """When the first chunk with a token came; None if none did."""
        return self.chunks[0].at_ns if self.chunks else None

    @property
    def last_token_at_ns(self) -> int | None:
        """When the last chunk with a token came; a later usage chunk does not count."""
        return self.chunks[-1].at_ns if self.chunks else None

    @property
    def output_tokens(self) -> int | Missing:
        """Tokens of the answer: as the server counted them, else as they came."""
        if self.usage is not None and self.usage.completion_tokens is not None:
            return self.usage.completion_tokens
        counts = self.chunk_tokens
        return counts if isinstance(counts, Missing) else sum(counts)

    @property
    def chunk_tokens(self) -> tuple[int, ...] | Missing:
        """Tokens of each chunk. Without ids they follow from the total when only one division of it is possible.

        Each chunk with text brought at least one token; so n chunks share n tokens in one way, and one chunk has all.
        """
        known = tuple(chunk.tokens for chunk in self.chunks if chunk.tokens is not None)
        if len(known) == len(self.chunks):
            return known
        total = self.usage.completion_tokens if self.usage is not None else None
        if total is None:
            return Missing("the server sent neither token ids nor usage")
        unknown, left = len(self.chunks) - len(known), total - sum(known)
        if left < unknown or (unknown > 1 and left != unknown):
            return Missing(f"{left} tokens came in {unknown} chunks without token ids")
        each = left // unknown
        return tuple(each if chunk.tokens is None else chunk.tokens for chunk in self.chunks)


class StreamFold:
    """Takes the events of one stream in order and keeps what they say."""

    def __init__(self) -> None:
        self._decoder = msgspec.json.Decoder(_Chunk)
        self._chunks: list[Chunk] = []
        self._token_ids: list[int] = []
        self._finish_reason: str | None = None
        self._usage: Usage | None = None
        self._counted_tokens: int | None = 0
        self._error: str | None = None
        self.done = False

    def add(self, event: SseEvent, at_ns: int) -> None:
        """Take one event that was received at `at_ns`.

        Raises: msgspec.MsgspecError if its data is neither a chunk nor [DONE].
        """
        if event.data.strip() == DONE:
            self.done = True
            return
        chunk = self._decoder.decode(event.data)
        if chunk.error is not None or chunk.object == "error":
            self._error = _error_text(chunk)
            return
        for choice in chunk.choices[:1]:
            self._add_choice(choice, chunk.usage, at_ns)
        self._usage = chunk.usage if chunk.usage is not None else self._usage

    def _add_choice(self, choice: _Choice, usage: Usage | None, at_ns: int) -> None:
        self._finish_reason = choice.finish_reason or self._finish_reason
        text = _choice_text(choice)
        if choice.token_ids:
            self._token_ids += choice.token_ids
        elif choice.token_ids is not None and text and self._chunks:
            # Text that the server had held back: it belongs to tokens that came before.
            self._chunks[-1] = replace(self._chunks[-1], text=self._chunks[-1].text + text)
            return
        elif choice.token_ids is not None or not text:
            return
        self._chunks.append(Chunk(at_ns, text, self._new_tokens(choice, usage)))

    def _new_tokens(self, choice: _Choice, usage: Usage | None) -> int | None:
        """By ids if they came, else by how far the running usage went on since the last chunk."""
        before = self._counted_tokens
        running = usage.completion_tokens if usage is not None else None
        if choice.token_ids is not None:
            self._counted_tokens = None if before is None else before + len(choice.token_ids)
            return len(choice.token_ids)
        self._counted_tokens = running
        return running - before if running is not None and before is not None and running > before else None

    def answer(self) -> Answer:
        """The stream as far as it has come."""
        return Answer(
            tuple(self._chunks), tuple(self._token_ids), self._finish_reason, self._usage, self.done, self._error
        )


@dataclass(frozen=True)
class Outcome:
    """How one request ended: exactly one kind, with its reason, and the stamps of this host's monotonic clock.

    `reason` is empty for ok, else `KIND/WHY` such as `failed/no_token`. A moment that never came is None.
    """

    kind: Kind
    reason: str
    ended_at_ns: int
    answer: Answer = Answer()
    sent_at_ns: int | None = None
    first_byte_at_ns: int | None = None
    http_status: int | None = None
    error: str | None = None


def judge_answer(answer: Answer) -> tuple[Kind, str]:
    """Kind and reason of a stream that ended in good order with HTTP status 200."""
    if answer.error is not None:
        why = "error_in_stream"
    elif not answer.chunks:
        why = "no_token"
    elif not answer.done:
        why = "no_done"
    elif answer.finish_reason is None:
        why = "no_finish_reason"
    elif answer.finish_reason not in GOOD_ENDS:
        why = f"finish_reason_{answer.finish_reason}"
    else:
        return "ok", ""
    return "failed", f"failed/{why}"


def judge_status(status: int) -> tuple[Kind, str]:
    """Kind and reason of an HTTP status other than 200."""
    return ("rejected", f"rejected/{status}") if status == REJECTED_STATUS else ("failed", f"failed/http_{status}")


def _choice_text(choice: _Choice) -> str:
    if choice.delta is None:
        return choice.text or ""
    return "".join(
        text for text in (choice.delta.reasoning, choice.delta.reasoning_content, choice.delta.content) if text
    )


def _error_text(chunk: _Chunk) -> str:
    said = chunk.error if isinstance(chunk.error, str) else (chunk.error or chunk).message
    return said or "an error without a message"
