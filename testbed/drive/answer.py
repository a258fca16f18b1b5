"""A stream folded into one answer, chunk by chunk as it comes.

Reads the chunks of /v1/completions and of /v1/chat/completions alike. A chunk is not a token: tokens are counted from
`token_ids`, else from the running usage; where neither tells, the count is Missing.
"""

import msgspec

from testbed.missing import Missing

DONE = b"[DONE]"


class PromptDetails(msgspec.Struct, frozen=True, gc=False):
    """The part of usage that tells of reuse."""

    cached_tokens: int | None = None


class Usage(msgspec.Struct, frozen=True, gc=False):
    """The server's own count of tokens; in a stream the last one holds."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: PromptDetails | None = None


class _Delta(msgspec.Struct, frozen=True, gc=False):
    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None


class _Choice(msgspec.Struct, frozen=True, gc=False):
    text: str | None = None
    delta: _Delta | None = None
    token_ids: list[int] | None = None
    finish_reason: str | None = None


class _Error(msgspec.Struct, frozen=True, gc=False):
    message: str | None = None


class _Chunk(msgspec.Struct, frozen=True, gc=False):
    choices: list[_Choice] = []
    usage: Usage | None = None
    error: _Error | str | None = None
    object: str | None = None
    message: str | None = None


_decode = msgspec.json.Decoder(_Chunk).decode


class Answer(msgspec.Struct, frozen=True, gc=False):
    """A stream as far as it came: one time, text and count for each chunk that brought tokens.

    A count is None where its chunk alone does not tell how many. `error` is what the server said inside the stream.
    """

    chunk_at_ns: list[int] = []
    texts: list[str] = []
    counts: list[int | None] = []
    token_ids: list[int] = []
    finish_reason: str | None = None
    usage: Usage | None = None
    done: bool = False
    error: str | None = None

    @property
    def text(self) -> str:
        """All text of the answer."""
        return "".join(self.texts)

    @property
    def first_token_at_ns(self) -> int | None:
        """When the first chunk with a token came; None if none did."""
        return self.chunk_at_ns[0] if self.chunk_at_ns else None

    @property
    def last_token_at_ns(self) -> int | None:
        """When the last chunk with a token came; a later usage chunk does not count."""
        return self.chunk_at_ns[-1] if self.chunk_at_ns else None

    @property
    def output_tokens(self) -> int | Missing:
        """Tokens of the answer: as the server counted them, else as they came."""
        if self.usage is not None and self.usage.completion_tokens is not None:
            return self.usage.completion_tokens
        counts = self.chunk_tokens
        return counts if isinstance(counts, Missing) else sum(counts)

    @property
    def chunk_tokens(self) -> list[int] | Missing:
        """Tokens of each chunk. Without ids they follow from the total when only one division of it is possible.

        Each chunk with text brought at least one token; so n chunks share n tokens in one way, and one chunk has all.
        """
        known = [count for count in self.counts if count is not None]
        if len(known) == len(self.counts):
            return known
        total = self.usage.completion_tokens if self.usage is not None else None
        if total is None:
            return Missing("the server sent neither token ids nor usage")
        unknown, left = len(self.counts) - len(known), total - sum(known)
        if left < unknown or (unknown > 1 and left != unknown):
            return Missing(f"{left} tokens came in {unknown} chunks without token ids")
        each = left // unknown
        return [each if count is None else count for count in self.counts]


class StreamFold:
    """Takes the events of one stream in order and keeps what they say. `came_tokens` counts at least what came."""

    __slots__ = (
        "_at_ns", "_counted_tokens", "_counts", "_error", "_finish_reason", "_texts", "_token_ids", "_usage",
        "came_tokens", "done",
    )

    def __init__(self) -> None:
        self._at_ns: list[int] = []
        self._texts: list[str] = []
        self._counts: list[int | None] = []
        self._token_ids: list[int] = []
        self._finish_reason: str | None = None
        self._usage: Usage | None = None
        self._counted_tokens: int | None = 0
        self._error: str | None = None
        self.came_tokens = 0
        self.done = False

    def add(self, data: bytes, at_ns: int) -> None:
        """Take the data of one event that was received at `at_ns`.

        Raises: msgspec.MsgspecError if it is neither a chunk nor [DONE].
        """
        if data[:1] != b"{" and data.strip() == DONE:
            self.done = True
            return
        chunk = _decode(data)
        usage = chunk.usage
        if chunk.error is not None or chunk.object == "error":
            self._error = _error_text(chunk)
            return
        if chunk.choices:
            self._add_choice(chunk.choices[0], usage, at_ns)
        if usage is not None:
            self._usage = usage

    def _add_choice(self, choice: _Choice, usage: Usage | None, at_ns: int) -> None:
        if choice.finish_reason:
            self._finish_reason = choice.finish_reason
        ids = choice.token_ids
        text = choice.text if choice.delta is None else _delta_text(choice.delta)
        if ids:
            self._token_ids += ids
            count: int | None = len(ids)
            if self._counted_tokens is not None:
                self._counted_tokens += len(ids)
        elif not text:
            return
        elif ids is None:
            count = self._counted_by_usage(usage)
        elif self._at_ns:
            # Text that the server had held back: it belongs to tokens that came before.
            self._texts[-1] += text
            return
        else:
            return
        self._at_ns.append(at_ns)
        self._texts.append("" if text is None else text)
        self._counts.append(count)
        self.came_tokens += 1 if count is None else count

    def _counted_by_usage(self, usage: Usage | None) -> int | None:
        """By how far the running usage went on since the last chunk."""
        before = self._counted_tokens
        running = self._counted_tokens = usage.completion_tokens if usage is not None else None
        return running - before if running is not None and before is not None and running > before else None

    def answer(self) -> Answer:
        """The stream as far as it has come."""
        return Answer(
            self._at_ns, self._texts, self._counts, self._token_ids, self._finish_reason, self._usage, self.done,
            self._error,
        )


def _delta_text(delta: _Delta) -> str:
    return "".join(text for text in (delta.reasoning, delta.reasoning_content, delta.content) if text)


def _error_text(chunk: _Chunk) -> str:
    said = chunk.error if isinstance(chunk.error, str) else (chunk.error or chunk).message
    return said or "an error without a message"
