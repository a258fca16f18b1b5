"""What becomes of a request: it is refused, left hanging, waits for a slot, or is answered at its times."""

from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from testbed.clock import now_ns
from testbed.stub.answer import (
    STREAM_HEAD,
    VOCABULARY,
    Shape,
    burst,
    error_piece,
    json_response,
    plain_answer,
    role_event,
    stream_pieces,
)
from testbed.stub.asked import CHAT, COMPLETIONS, Asked, read_asked
from testbed.stub.connection import Connection, HttpRequest
from testbed.stub.log import Arrival, Ledger
from testbed.stub.options import Options
from testbed.stub.timers import Timers

SPOILS = ("cut", "reset", "error")
"""What may happen to a stream after its first chunk; of several that strike the first one does."""

_Refusal = tuple[int, str]


class Serving:
    """Answers like an OpenAI server, at the times that `options` say."""

    def __init__(self, options: Options, ledger: Ledger, timers: Timers) -> None:
        self.options = options
        self.ledger = ledger
        self.timers = timers
        self._first_at_ns: int | None = None
        self._served_now = 0
        every = {"cut": options.cut_every, "reset": options.reset_every, "error": options.error_every}
        self._spoils = [(name, every[name]) for name in SPOILS if every[name]]
        self._waiting: deque[Answering] = deque()

    def post(self, connection: Connection, request: HttpRequest) -> None:
        """Take one POST; the connection is finished when it is answered."""
        asked, problem = self._read(request)
        answering = Answering(self, connection, asked)
        arrival = Arrival(request.request_id, request.begun_at_ns, request.received_at_ns, request.body)
        answering.number = number = self.ledger.begin(arrival, asked, answering.sends)
        if self._first_at_ns is None and number > self.options.skip_posts:
            self._first_at_ns = request.received_at_ns
        connection.on_lost = answering.lost
        refusal = self._refusal(request, asked) if problem is None else problem
        if refusal is not None:
            answering.refuse(*refusal, "rejected" if refusal[0] == 429 else "refused")
        elif self._strikes(self.options.hang_every, number):
            answering.hang()
        elif self._strikes(self.options.fail_every, number):
            answering.refuse(self.options.status, "the stand-in fails as told", "failed")
        elif self.options.slots and self._served_now >= self.options.slots:
            self._waiting.append(answering)
        else:
            self._start(answering, request.received_at_ns)

    def _read(self, request: HttpRequest) -> tuple[Asked | None, _Refusal | None]:
        if request.path not in (COMPLETIONS, CHAT):
            return None, (404, f"there is no {request.path}")
        try:
            return read_asked(request.path, request.body), None
        except msgspec.MsgspecError as problem:
            return None, (400, str(problem))

    def _refusal(self, request: HttpRequest, asked: Asked | None) -> _Refusal | None:
        """Status and message if this request is not to be served."""
        options = self.options
        assert asked is not None
        if options.api_key is not None and request.authorization != f"Bearer {options.api_key}":
            return 401, "Unauthorized"
        if options.model is not None and asked.model != options.model:
            return 404, f"The model `{asked.model}` does not exist."
        if asked.max_tokens < 1:
            return 400, f"max_tokens must be at least 1, got {asked.max_tokens}."
        if options.context_limit and asked.prompt_tokens + asked.max_tokens > options.context_limit:
            wanted = f"{asked.prompt_tokens} of the prompt and {asked.max_tokens} of the answer"
            return 400, f"This model's maximum context length is {options.context_limit} tokens, not {wanted}."
        if options.reject_above and self.ledger.open > options.reject_above:
            return 429, f"more than {options.reject_above} requests are in flight"
        return None

    def _strikes(self, every: int, number: int) -> bool:
        counted = number - self.options.skip_posts
        return every > 0 and counted > 0 and counted % every == 0

    def _start(self, answering: "Answering", base_ns: int) -> None:
        self._served_now += 1
        strike = [name for name, every in self._spoils if self._strikes(every, answering.number)]
        answering.start(base_ns, strike[0] if strike else None)

    def due_ns(self, base_ns: int, token: int) -> int:
        """When `token` (from 0) leaves, if serving began at `base_ns`."""
        options = self.options
        due_ns = base_ns + round((options.ttft_ms + token * options.itl_ms) * 1e6)
        if options.freeze is not None and self._first_at_ns is not None:
            from_s, for_s = options.freeze
            frozen_at_ns = self._first_at_ns + round(from_s * 1e9)
            thawed_at_ns = frozen_at_ns + round(for_s * 1e9)
            if frozen_at_ns <= due_ns < thawed_at_ns:
                return thawed_at_ns
        return due_ns

    def freed(self) -> None:
        """A slot is free: the request that has waited longest has it."""
        self._served_now -= 1
        while self._waiting:
            answering = self._waiting.popleft()
            if not answering.is_over:
                self._start(answering, now_ns())
                break

    def told(self, path: str) -> bytes:
        """The answer to a GET."""
        if path == "/_log":
            return json_response(200, self.ledger.told())
        if path == "/v1/models":
            return json_response(200, {"object": "list", "data": [self._card()]})
        if path in ("/health", "/ping"):
            return json_response(200, {})
        return json_response(404, {"error": {"message": f"there is no {path}", "code": 404}})

    def _card(self) -> dict[str, Any]:
        options = self.options
        limit = {"max_model_len": options.context_limit} if options.context_limit else {}
        name = "stub" if options.model is None else options.model
        return {"id": name, "object": "model", "owned_by": "testbed stand-in", **limit}


class Answering:
    """One request until its end. It is over once and for all when it is answered or its client has gone."""

    __slots__ = ("_base_ns", "_chunk", "_connection", "_has_slot", "_serving", "_shape", "_spoil", "_stream",
                 "is_over", "number")

    def __init__(self, serving: Serving, connection: Connection, asked: Asked | None) -> None:
        self.number = 0
        self.is_over = False
        self._serving = serving
        self._connection = connection
        self._shape = None if asked is None else _shape(asked, serving.options)
        self._stream = asked is not None and asked.stream
        self._has_slot = False
        self._spoil: str | None = None
        self._base_ns = 0
        self._chunk = 0

    @property
    def sends(self) -> int:
        """How many writes the answer takes, each with a stamp of its own."""
        if self._shape is None or not self._stream:
            return 0
        return 1 if self._serving.options.burst else -(-self._shape.tokens // self._shape.step)

    def refuse(self, status: int, message: str, ended: str) -> None:
        """Answer with an error."""
        content = {"error": {"message": message, "type": "stand-in", "param": None, "code": status}}
        self._connection.write(json_response(status, content))
        self._end(ended)

    def hang(self) -> None:
        """Never answer; the request stays open until its client leaves."""
        self._serving.ledger.mark(self.number, "hung")
        self._connection.on_lost = self._serving.ledger.close

    def start(self, base_ns: int, spoil: str | None) -> None:
        """Serve it, from `base_ns` on."""
        self._has_slot, self._base_ns, self._spoil = True, base_ns, spoil
        shape = self._shape
        assert shape is not None
        if not self._stream:
            self._at(shape.tokens - 1, self._send_plain)
        elif self._serving.options.burst:
            self._at(0, self._send_burst)
        else:
            self._connection.write(STREAM_HEAD + role_event() if shape.chat else STREAM_HEAD)
            self._send_chunks()

    def _at(self, token: int, send: Callable[[], None]) -> None:
        due_ns = self._serving.due_ns(self._base_ns, token)
        if due_ns <= now_ns():
            send()
        else:
            self._serving.timers.at(due_ns, send)

    def _send_plain(self) -> None:
        if not self.is_over:
            assert self._shape is not None
            self._connection.write(plain_answer(self._shape))
            self._end("served")

    def _send_burst(self) -> None:
        if self.is_over:
            return
        shape = self._shape
        assert shape is not None
        if self._spoil is not None and shape.tokens > shape.step:
            head = STREAM_HEAD + role_event() if shape.chat else STREAM_HEAD
            self._stamp(0, self._connection.write(head + stream_pieces(shape)[0]))
            self._break_off(self._spoil)
        else:
            self._stamp(0, self._connection.write(burst(shape)))
            self._end("served")

    def _send_chunks(self) -> None:
        """Send each chunk that is due, and come back when the next one is."""
        shape, serving = self._shape, self._serving
        assert shape is not None
        pieces = stream_pieces(shape)
        while not self.is_over:
            last_token = min((self._chunk + 1) * shape.step, shape.tokens) - 1
            due_ns = serving.due_ns(self._base_ns, last_token)
            if due_ns > now_ns():
                serving.timers.at(due_ns, self._send_chunks)
                break
            if self._spoil is not None and self._chunk == 1:
                self._break_off(self._spoil)
                break
            self._stamp(self._chunk, self._connection.write(pieces[self._chunk]))
            self._chunk += 1
            if self._chunk == len(pieces):
                self._end("served")

    def _stamp(self, chunk: int, at_ns: int) -> None:
        self._serving.ledger.sent(self.number, chunk, at_ns)

    def _break_off(self, spoil: str) -> None:
        if spoil == "error":
            self._connection.write(error_piece("KV load failed as told"))
            self._end(spoil)
        else:
            self._over(spoil)
            self._connection.on_lost = None
            (self._connection.reset if spoil == "reset" else self._connection.close)()

    def lost(self) -> None:
        """The client has gone before the end."""
        if not self.is_over:
            self._over("client_gone")

    def _end(self, ended: str) -> None:
        self._over(ended)
        self._connection.finish()

    def _over(self, ended: str) -> None:
        self.is_over = True
        self._serving.ledger.mark(self.number, ended)
        self._serving.ledger.close()
        if self._has_slot:
            self._serving.freed()


def _shape(asked: Asked, options: Options) -> Shape:
    wanted = max(asked.max_tokens, 1)
    tokens = min(wanted, options.stop_after) if options.stop_after else wanted
    return Shape(
        seed=asked.seed % VOCABULARY, tokens=tokens, step=options.tokens_of_a_chunk(tokens),
        finish="stop" if tokens < wanted else "length", prompt_tokens=asked.prompt_tokens, chat=asked.chat,
        token_ids=options.token_ids == "always" or (options.token_ids == "asked" and asked.token_ids),
        usage=asked.usage, running_usage=asked.running_usage,
    )
