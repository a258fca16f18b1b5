"""Journal events, encoded at once and written by a thread of their own, so that a slow disk never holds up a send.

What is encoded is handed to the thread when `flush` is called, some hundred times a second: waking a thread for each
event would cost more than the event.
"""

import queue
import threading
from collections.abc import Iterable

from testbed.drive.outcome import Outcome
from testbed.errors import RunError
from testbed.journal.events import Note, RequestEnded, RequestPlanned, RequestSent
from testbed.journal.writer import JournalWriter
from testbed.missing import Missing
from testbed.workload.request import PlannedRequest

PLANNED_AT_ONCE = 1_000


class Recorder:
    """Takes events at once and writes them in order; leave its context and all of them are in the journal.

    Raises: RunError on leaving when the disk did not take all events; it says how many it did not.
    """

    def __init__(self, journal: JournalWriter) -> None:
        self._journal = journal
        self.line = journal.line
        self._encoded: list[bytes] = []
        self._waiting: queue.SimpleQueue[list[bytes] | None] = queue.SimpleQueue()
        self._problem: OSError | None = None
        self._lost = 0
        self._thread = threading.Thread(target=self._write_all, name="journal", daemon=True)

    def __enter__(self) -> "Recorder":
        self._thread.start()
        return self

    def __exit__(self, kind: object, problem: object, trace: object) -> None:
        self.flush()
        self._waiting.put(None)
        self._thread.join()
        if self._problem is not None:
            raise RunError(
                f"the journal could not be written: {self._problem}; {self._lost} events are lost",
                where=str(self._journal.path),
            )

    @property
    def broken(self) -> bool:
        """The disk did not take an event, so what follows is lost."""
        return self._problem is not None

    def write(self, line: bytes) -> None:
        """Take one event that the journal has made a line of; returns at once."""
        self._encoded.append(line)

    def flush(self) -> None:
        """Hand what has come since the last call to the thread that writes."""
        if self._encoded:
            self._waiting.put(self._encoded)
            self._encoded = []

    def _write_all(self) -> None:
        while (lines := self._waiting.get()) is not None:
            if self._problem is None:
                try:
                    self._journal.append(b"".join(lines))
                    continue
                except OSError as problem:
                    self._problem = problem
            self._lost += len(lines)


def record_planned(
    journal: JournalWriter, requests: Iterable[tuple[PlannedRequest, str]], warnings: Iterable[str]
) -> None:
    """All requests as the plan wants them, with their ids, and what a reader should know; done when it returns.

    Raises: RunError if the disk does not take them.
    """
    lines = [journal.line(Note, text=warning) for warning in warnings]
    try:
        for request, request_id in requests:
            lines.append(_planned_line(journal, request, request_id))
            if len(lines) >= PLANNED_AT_ONCE:
                journal.append(b"".join(lines))
                lines = []
        journal.append(b"".join(lines))
    except OSError as problem:
        raise RunError(f"the journal could not be written: {problem}", where=str(journal.path)) from problem


def _planned_line(journal: JournalWriter, request: PlannedRequest, request_id: str) -> bytes:
    return journal.line(
        RequestPlanned, request_id=request_id, index=request.index, traffic_class=request.traffic_class,
        scheduled_at_s=request.scheduled_at_s, prompt_tokens=len(request.prompt), max_tokens=request.max_tokens,
        stop=request.stop, timeout_s=request.timeout_s, prompt_key=request.prompt_key, measured=request.measured,
        document=request.document, session=request.session, turn=request.turn, after=request.after,
        think_s=request.think_s, tenant=request.tenant, priority=request.priority,
        leaves_after_tokens=request.leaves_after_tokens, hit_tokens=request.hit_tokens,
    )


def record_sent(recorder: Recorder, request_id: str, scheduled_at_ns: int, sent_at_ns: int) -> None:
    """Its first byte went out."""
    recorder.write(
        recorder.line(RequestSent, request_id=request_id, scheduled_at_ns=scheduled_at_ns, sent_at_ns=sent_at_ns)
    )


def record_ended(recorder: Recorder, request_id: str, scheduled_at_ns: int, outcome: Outcome) -> None:
    """How it ended. `chunk_tokens` stays empty where the tokens of a chunk are unknown."""
    answer, usage = outcome.answer, outcome.answer.usage
    chunk_tokens = answer.chunk_tokens
    details = usage.prompt_tokens_details if usage is not None else None
    recorder.write(recorder.line(
        RequestEnded, request_id=request_id, outcome=outcome.kind, reason=outcome.reason,
        scheduled_at_ns=scheduled_at_ns, ended_at_ns=outcome.ended_at_ns,
        sent_at_ns=outcome.sent_at_ns, first_byte_at_ns=outcome.first_byte_at_ns,
        first_token_at_ns=answer.first_token_at_ns, last_token_at_ns=answer.last_token_at_ns,
        chunk_at_ns=answer.chunk_at_ns, chunk_tokens=[] if isinstance(chunk_tokens, Missing) else chunk_tokens,
        token_ids=answer.token_ids, finish_reason=answer.finish_reason, http_status=outcome.http_status,
        usage_prompt_tokens=usage.prompt_tokens if usage is not None else None,
        usage_output_tokens=usage.completion_tokens if usage is not None else None,
        usage_cached_tokens=details.cached_tokens if details is not None else None, error=outcome.error,
    ))
