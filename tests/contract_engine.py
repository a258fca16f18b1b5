"""What the client relies on in an engine: held against the stand-in server and against a real engine."""

from collections.abc import Sequence
from pathlib import Path

from testbed.drive.endpoint import Endpoint, ask
from testbed.drive.schedule import drive
from testbed.journal.events import RequestEnded, RequestPlanned, RequestSent
from testbed.journal.reader import load_journal
from testbed.journal.writer import JournalWriter
from testbed.workload.request import PlannedRequest


def drive_forced(endpoint: Endpoint, prompt: Sequence[int], folder: Path) -> None:
    """Forced lengths are honoured, every token has an id and a time, and usage agrees with both."""
    requests = [PlannedRequest(number, "any", 0.1 * number, tuple(prompt), length, "forced", 60.0)
                for number, length in enumerate((1, 2, 7))]
    journal = JournalWriter(folder / "events", "driver")
    result = drive(requests, endpoint, journal, request_id=lambda one: f"contract.{one.index}")
    assert result.counts["ok"] == 3
    found = load_journal(folder)
    ends = sorted(found.select(RequestEnded), key=lambda one: one.request_id)
    for ended, length in zip(ends, (1, 2, 7), strict=True):
        assert (ended.outcome, ended.reason, ended.finish_reason) == ("ok", "", "length")
        assert len(ended.token_ids) == ended.usage_output_tokens == sum(ended.chunk_tokens) == length
        assert ended.usage_prompt_tokens == len(prompt)
        assert ended.sent_at_ns is not None
        assert ended.first_token_at_ns is not None
        assert ended.scheduled_at_ns <= ended.sent_at_ns <= ended.first_token_at_ns
        assert ended.chunk_at_ns == sorted(ended.chunk_at_ns)
    assert len(found.select(RequestPlanned)) == len(found.select(RequestSent)) == 3


def ask_plainly(endpoint: Endpoint, prompt: Sequence[int]) -> None:
    """One answer that is not streamed has its tokens and usage."""
    body = {"model": endpoint.model, "prompt": list(prompt), "max_tokens": 2, "return_token_ids": True}
    answer = ask(endpoint, body, request_id="contract.plain", timeout_s=60.0)
    assert len(answer["choices"][0]["token_ids"]) == answer["usage"]["completion_tokens"] == 2
