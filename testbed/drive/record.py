"""Journal events written by a thread of their own, so that a slow disk never holds up a send."""

import queue
import threading
from typing import Any

from testbed.drive.outcome import Outcome
from testbed.errors import RunError
from testbed.journal.events import Event, RequestEnded, RequestPlanned, RequestSent
from testbed.journal.writer import JournalWriter
from testbed.missing import Missing
from testbed.workload.request import PlannedRequest

_Item = tuple[type[Event], dict[str, Any]]


class Recorder:
    """Takes events at once and writes them in order; leave its context and all of them are in the journal.

    Raises: RunError on leaving when the disk did not take an event.
    """

    def __init__(self, journal: JournalWriter) -> None:
        self._journal = journal
        self._waiting: queue.SimpleQueue[_Item | None] = queue.SimpleQueue()
        self._problem: OSError | None = None
        self._thread = threading.Thread(target=self._write_all, name="journal", daemon=True)

    def __enter__(self) -> "Recorder":
        self._thread.start()
        return self

    def __exit__(self, kind: object, problem: object, trace: object) -> None:
        self._waiting.put(None)
        self._thread.join()
        if self._problem is not None:
            raise RunError(f"the journal could not be written: {self._problem}", where=str(self._journal.path))

    @property
    def broken(self) -> bool:
        """The disk did not take an event, so what follows is lost."""
        return self._problem is not None

    def write(self, kind: type[Event], **fields: Any) -> None:
        """Hand over one event; returns at once."""
        self._waiting.put((kind, fields))

    def _write_all(self) -> None:
        while (item := self._waiting.get()) is not None:
            kind, fields = item
            try:
                self._journal.write(kind, **fields)
            except OSError as problem:
                self._problem = problem
                return


def record_planned(recorder: Recorder, request: PlannedRequest, request_id: str, prompt_key: str) -> None:
    """The request as the plan wants it."""
    recorder.write(
        RequestPlanned, request_id=request_id, index=request.index, traffic_class=request.traffic_class,
        scheduled_at_s=request.scheduled_at_s, prompt_tokens=len(request.prompt), max_tokens=request.max_tokens,
        stop=request.stop, timeout_s=request.timeout_s, prompt_key=prompt_key, measured=request.measured,
        document=request.document, session=request.session, turn=request.turn, after=request.after,
        think_s=request.think_s, tenant=request.tenant, priority=request.priority,
        leaves_after_tokens=request.leaves_after_tokens, hit_tokens=request.hit_tokens,
    )


def record_sent(recorder: Recorder, request_id: str, scheduled_at_ns: int, sent_at_ns: int) -> None:
    """Its first byte went out."""
    recorder.write(RequestSent, request_id=request_id, scheduled_at_ns=scheduled_at_ns, sent_at_ns=sent_at_ns)


def record_ended(recorder: Recorder, request_id: str, scheduled_at_ns: int, outcome: Outcome) -> None:
    """How it ended. `chunk_tokens` stays empty where the tokens of a chunk are unknown."""
    answer, usage = outcome.answer, outcome.answer.usage
    chunk_tokens = answer.chunk_tokens
    details = usage.prompt_tokens_details if usage else None
    recorder.write(
        RequestEnded, request_id=request_id, outcome=outcome.kind, reason=outcome.reason,
        scheduled_at_ns=scheduled_at_ns, ended_at_ns=outcome.ended_at_ns,
        sent_at_ns=outcome.sent_at_ns, first_byte_at_ns=outcome.first_byte_at_ns,
        first_token_at_ns=answer.first_token_at_ns, last_token_at_ns=answer.last_token_at_ns,
        chunk_at_ns=[chunk.at_ns for chunk in answer.chunks],
        chunk_tokens=[] if isinstance(chunk_tokens, Missing) else list(chunk_tokens),
        token_ids=list(answer.token_ids), finish_reason=answer.finish_reason, http_status=outcome.http_status,
        usage_prompt_tokens=usage.prompt_tokens if usage else None,
        usage_output_tokens=usage.completion_tokens if usage else None,
        usage_cached_tokens=details.cached_tokens if details else None, error=outcome.error,
    )
