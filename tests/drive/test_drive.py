"""Driving a stand-in server in a process of its own: outcomes, clocks, the open loop and the stop."""

import os
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from testbed.clock import now_ns, wait_for
from testbed.drive.endpoint import Endpoint
from testbed.drive.schedule import DriveResult, Progress, drive
from testbed.errors import RunError
from testbed.journal.events import ArmBegan, Event, RequestEnded, RequestPlanned, RequestSent
from testbed.journal.reader import read_journal
from testbed.journal.writer import JournalWriter
from testbed.missing import Missing
from testbed.stub.process import RunningStub, running_stub
from testbed.stub.server import answer_tokens
from testbed.workload.request import PlannedRequest

CLOCK_TOLERANCE_S = 0.02
"""Between the stamps of server and client on one clock, as a median; some 0.5 ms where nothing else runs."""
PAUSE_LIMIT_S = 0.25
"""So long a busy machine may hold up this process or the server; the effects tested for are far longer."""


def request(
    index: int, at_s: float, max_tokens: int = 4, *, forced: bool = False, timeout_s: float = 20.0
) -> PlannedRequest:
    return PlannedRequest(
        index=index, traffic_class="c", scheduled_at_s=at_s, prompt=(1, 2, index), max_tokens=max_tokens,
        stop="forced" if forced else "natural", timeout_s=timeout_s,
    )


def name_of(planned: PlannedRequest) -> str:
    return f"R.arm.0.{planned.index}"


class Driven:
    """A drive that has ended, with its journal."""

    def __init__(self, result: DriveResult, events: tuple[Event, ...]) -> None:
        self.result = result
        self.events = events
        self.planned = [event for event in events if isinstance(event, RequestPlanned)]
        self.sent = {event.request_id: event for event in events if isinstance(event, RequestSent)}
        self.ended = {event.request_id: event for event in events if isinstance(event, RequestEnded)}

    def reasons(self) -> Counter[str]:
        return Counter(event.reason if event.reason else event.outcome for event in self.ended.values())


Driver = Callable[..., Driven]


@pytest.fixture
def driven(tmp_path: Path) -> Driver:
    def run(base_url: str, requests: list[PlannedRequest], **options: Any) -> Driven:
        journal = JournalWriter(tmp_path, "drive")
        journal.enter("arm", 0)
        result = drive(requests, Endpoint(base_url, "stub"), journal, request_id=name_of, **options)
        journal.close()
        return Driven(result, read_journal([("drive", journal.path.read_bytes())]).events)

    return run


def posts(stub: RunningStub) -> dict[str, dict[str, Any]]:
    return {post["request_id"]: post for post in stub.log()["posts"]}


def test_all_outcomes_are_told_apart_and_sum_up_to_the_plan(driven: Driver) -> None:
    requests = [request(index, index * 0.03, timeout_s=2.0) for index in range(12)]
    with running_stub("--hang-every", "5", "--cut-every", "4", "--error-every", "6", "--fail-every", "7") as stub:
        run = driven(stub.base_url, requests)
    # of 1..12: 5 and 10 hang; 7 fails; 4, 8 and 12 are cut (12 before its error); 6 has an error in the stream
    assert run.reasons() == {
        "ok": 5, "timed_out/no_token": 2, "failed/http_500": 1, "failed/closed": 3, "failed/error_in_stream": 1
    }
    assert run.result.counts == {"ok": 5, "failed": 5, "timed_out": 2, "cancelled": 0, "rejected": 0, "not_sent": 0}
    assert run.result.planned == sum(run.result.counts.values()) == len(run.planned) == len(run.ended) == 12
    errors = {event.reason: event.error for event in run.ended.values()}
    assert errors["failed/http_500"] == "the stand-in fails as told"
    assert errors["failed/error_in_stream"] == "KV load failed as told"


def test_a_refusal_is_a_rejection(driven: Driver) -> None:
    with running_stub("--fail-every", "1", "--status", "429") as stub:
        run = driven(stub.base_url, [request(0, 0.0)])
    assert run.reasons() == {"rejected/429": 1}
    assert run.ended["R.arm.0.0"].http_status == 429


def test_the_answer_is_kept_with_the_time_of_each_chunk(driven: Driver) -> None:
    with running_stub("--ttft-ms", "60", "--itl-ms", "20", "--tokens-per-chunk", "2") as stub:
        run = driven(stub.base_url, [request(0, 0.0, max_tokens=5)])
        post = posts(stub)["R.arm.0.0"]
    ended = run.ended["R.arm.0.0"]
    assert ended.token_ids == answer_tokens([1, 2, 0], 5)
    assert ended.chunk_tokens == [2, 2, 1]
    assert (ended.finish_reason, ended.http_status) == ("length", 200)
    assert (ended.usage_prompt_tokens, ended.usage_output_tokens, ended.usage_cached_tokens) == (3, 5, None)
    assert (ended.first_token_at_ns, ended.last_token_at_ns) == (ended.chunk_at_ns[0], ended.chunk_at_ns[-1])
    late_s = [(got - sent) / 1e9 for got, sent in zip(ended.chunk_at_ns, post["sent_at_ns"], strict=True)]
    assert all(0 <= late < PAUSE_LIMIT_S for late in late_s)


def test_ttft_agrees_with_the_stamps_of_the_server(driven: Driver) -> None:
    with running_stub("--ttft-ms", "80") as stub:
        run = driven(stub.base_url, [request(index, index * 0.02) for index in range(25)])
        seen = posts(stub)
    differences_s = []
    for name, ended in run.ended.items():
        assert ended.sent_at_ns is not None
        assert ended.first_token_at_ns is not None
        assert ended.first_byte_at_ns is not None
        by_server_s = (seen[name]["sent_at_ns"][0] - seen[name]["received_at_ns"]) / 1e9
        by_client_s = (ended.first_token_at_ns - ended.sent_at_ns) / 1e9
        differences_s.append(by_client_s - by_server_s)
        assert by_client_s >= 0.08
        assert ended.sent_at_ns < ended.first_byte_at_ns <= ended.first_token_at_ns <= ended.ended_at_ns
    assert min(differences_s) > 0
    assert median(differences_s) < CLOCK_TOLERANCE_S


def test_forced_length_and_the_request_id_reach_the_server(driven: Driver) -> None:
    with running_stub() as stub:
        driven(stub.base_url, [request(0, 0.0, max_tokens=3, forced=True), request(1, 0.0, max_tokens=2)])
        seen = posts(stub)
    asked = {name: (post["max_tokens"], post["min_tokens"], post["ignore_eos"]) for name, post in seen.items()}
    assert asked == {"R.arm.0.0": (3, 3, True), "R.arm.0.1": (2, None, False)}


def test_a_stalled_server_delays_no_send_and_hides_no_wait(driven: Driver) -> None:
    """A request each 50 ms for 2 s, 10 ms of service, and a server that is frozen from 0.6 s to 1.8 s."""
    requests = [request(index, index * 0.05, max_tokens=1) for index in range(40)]
    with running_stub("--ttft-ms", "10", "--freeze", "0.6:1.2") as stub:
        run = driven(stub.base_url, requests)
    assert run.result.counts["ok"] == 40
    assert isinstance(run.result.send_lag_max_s, float)
    assert run.result.send_lag_max_s < PAUSE_LIMIT_S
    scheduled_s, sent_s = [], []
    for ended in run.ended.values():
        assert ended.first_token_at_ns is not None
        assert ended.sent_at_ns is not None
        scheduled_s.append((ended.first_token_at_ns - ended.scheduled_at_ns) / 1e9)
        sent_s.append((ended.first_token_at_ns - ended.sent_at_ns) / 1e9)
    # those due at 0.60, 0.65 .. 1.75 are freed at 1.8: 1.20, 1.15 .. 0.05 s; 18 of them wait above 0.3 s
    assert max(scheduled_s) == pytest.approx(1.2, abs=PAUSE_LIMIT_S)
    assert 16 <= sum(wait > 0.3 for wait in scheduled_s) <= 24
    # the client was on time, so both ways to count show the stall
    assert max(sent_s) == pytest.approx(max(scheduled_s), abs=PAUSE_LIMIT_S)


def test_two_hundred_requests_at_once_are_all_on_the_wire_at_once(driven: Driver) -> None:
    with running_stub("--ttft-ms", "1500") as stub:
        run = driven(stub.base_url, [request(index, 0.0) for index in range(200)])
        assert stub.log()["peak_open"] == 200
    assert run.result.counts["ok"] == 200
    assert run.result.peak_open == 200
    assert isinstance(run.result.send_lag_p99_s, float)


def test_the_deadline_counts_from_the_scheduled_time(driven: Driver) -> None:
    with running_stub("--hang-every", "1") as stub:
        run = driven(stub.base_url, [request(0, 0.1, timeout_s=0.4)])
    ended = run.ended["R.arm.0.0"]
    assert ended.reason == "timed_out/no_token"
    # the loop counts in whole ms
    assert 0.39 <= (ended.ended_at_ns - ended.scheduled_at_ns) / 1e9 < 0.4 + PAUSE_LIMIT_S


def test_a_deadline_within_the_stream_keeps_what_had_come(driven: Driver) -> None:
    with running_stub("--ttft-ms", "10", "--itl-ms", "100") as stub:
        run = driven(stub.base_url, [request(0, 0.0, max_tokens=50, timeout_s=1.5)])
    ended = run.ended["R.arm.0.0"]
    assert ended.reason == "timed_out/in_stream"
    # tokens at 0.01, 0.11 .. 1.41 s after receipt: 15, fewer on a busy machine
    assert 2 <= len(ended.token_ids) <= 15


def test_a_stop_sends_nothing_more_and_cancels_what_is_in_flight(driven: Driver) -> None:
    stop = threading.Event()

    def on_progress(progress: Progress) -> None:
        if progress.sent >= 3:
            stop.set()

    requests = [request(index, index * 0.1, max_tokens=100) for index in range(3)]
    requests += [request(index, 30.0) for index in range(3, 8)]
    with running_stub("--ttft-ms", "10", "--itl-ms", "200") as stub:
        run = driven(stub.base_url, requests, should_stop=stop.is_set, on_progress=on_progress)
        assert set(posts(stub)) == {"R.arm.0.0", "R.arm.0.1", "R.arm.0.2"}
    assert run.result.interrupted
    assert run.result.counts == {"ok": 0, "failed": 0, "timed_out": 0, "cancelled": 3, "rejected": 0, "not_sent": 5}
    assert run.reasons()["not_sent/interrupted"] == 5
    assert all(event.outcome in ("cancelled", "not_sent") for event in run.ended.values())
    assert set(run.sent) == {"R.arm.0.0", "R.arm.0.1", "R.arm.0.2"}


def test_the_zero_is_told_before_anything_else_and_all_is_planned_before_it_is_sent(tmp_path: Path) -> None:
    journal = JournalWriter(tmp_path, "drive")

    def on_zero(zero_at_ns: int) -> None:
        assert zero_at_ns > now_ns()
        journal.write(ArmBegan, zero_at_ns=zero_at_ns, probed=False, policy="recompute")

    with running_stub() as stub:
        result = drive(
            [request(index, 0.05 * index) for index in range(3)], Endpoint(stub.base_url, "stub"), journal,
            request_id=name_of, on_zero=on_zero,
        )
    journal.close()
    events = read_journal([("drive", journal.path.read_bytes())]).events
    assert isinstance(events[0], ArmBegan)
    assert all(isinstance(event, RequestPlanned) for event in events[1:4])
    assert [event.scheduled_at_ns for event in events if isinstance(event, RequestSent)] == [
        result.zero_at_ns, result.zero_at_ns + 50_000_000, result.zero_at_ns + 100_000_000
    ]


def test_no_request_leaves_before_its_time(driven: Driver) -> None:
    with running_stub("--ttft-ms", "0") as stub:
        run = driven(stub.base_url, [request(index, index * 0.0137) for index in range(60)])
    assert all(event.sent_at_ns >= event.scheduled_at_ns for event in run.sent.values())
    assert run.result.loop_stall_max_s >= 0


def test_progress_ends_with_all_requests(driven: Driver) -> None:
    told: list[Progress] = []
    with running_stub() as stub:
        driven(stub.base_url, [request(index, 0.0) for index in range(4)], on_progress=told.append)
    assert told[-1] == Progress(planned=4, sent=4, ended=4)


def test_unknown_token_counts_stay_unknown_in_the_journal(driven: Driver) -> None:
    with running_stub("--no-token-ids", "--tokens-per-chunk", "2") as stub:
        run = driven(stub.base_url, [request(0, 0.0, max_tokens=5)])
    ended = run.ended["R.arm.0.0"]
    assert (ended.outcome, ended.usage_output_tokens, len(ended.chunk_at_ns)) == ("ok", 5, 3)
    assert (ended.chunk_tokens, ended.token_ids) == ([], [])


def test_nobody_at_the_address_is_a_failure_to_connect(driven: Driver) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        run = driven(f"http://127.0.0.1:{taken.getsockname()[1]}", [request(0, 0.0), request(1, 0.1)])
    assert run.reasons() == {"failed/connect": 2}
    assert run.sent == {}
    assert run.result.send_lag_p50_s == Missing("0 requests were sent, this needs 1")


@contextmanager
def scripted_server(response: bytes, *, reset: bool = False) -> Iterator[str]:
    """A server that answers its first connection with these bytes, then closes or resets it."""
    listener = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(response)
            if reset:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        thread.join(10)
        listener.close()


SSE_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
TOKEN = b'data: {"choices": [{"text": " a", "token_ids": [5], "finish_reason": "stop"}]}\n\n'
DONE = b"data: [DONE]\n\n"


@pytest.mark.parametrize(
    ("response", "reset", "reason"),
    [
        (SSE_HEAD + TOKEN + DONE, False, "ok"),  # a body without length ends with the connection
        (SSE_HEAD + TOKEN + DONE, True, "ok"),  # after [DONE] no later trouble counts
        (SSE_HEAD + TOKEN, False, "failed/no_done"),
        (SSE_HEAD + DONE, False, "failed/no_token"),
        (SSE_HEAD + b"data: {\n\n", False, "failed/bad_chunk"),
        (b"SMTP ready\r\n\r\n", False, "failed/bad_http"),
        (b"", False, "failed/closed"),
        (b"", True, "failed/reset"),
        (b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nhi", False, "failed/not_a_stream"),
        (b"HTTP/1.1 503 No\r\nContent-Length: 99\r\n\r\nloading", False, "failed/http_503"),
    ],
)
def test_each_way_to_break_a_response_has_its_name(driven: Driver, response: bytes, reset: bool, reason: str) -> None:
    with scripted_server(response, reset=reset) as base_url:
        run = driven(base_url, [request(0, 0.0)])
    assert run.reasons() == {reason: 1}


def test_two_requests_with_one_id_are_refused(tmp_path: Path) -> None:
    journal = JournalWriter(tmp_path, "drive")
    with pytest.raises(RunError, match="used twice"):
        drive(
            [request(0, 0.0), request(0, 1.0)], Endpoint("http://127.0.0.1:1", "m"), journal, request_id=name_of
        )
    journal.close()


def test_a_journal_that_can_not_be_written_ends_the_run(tmp_path: Path) -> None:
    journal = JournalWriter(tmp_path, "drive")
    journal.close()
    began_ns = now_ns()
    with running_stub() as stub, pytest.raises(RunError, match="could not be written"):
        drive([request(0, 0.0), request(1, 25.0)], Endpoint(stub.base_url, "stub"), journal, request_id=name_of)
    assert now_ns() - began_ns < 20e9


def test_the_callers_signal_handler_runs_while_a_drive_is_on(driven: Driver) -> None:
    stop = threading.Event()
    before = signal.signal(signal.SIGTERM, lambda *_: stop.set())
    told: list[Progress] = []

    def on_progress(progress: Progress) -> None:
        told.append(progress)
        if len(told) == 1:
            os.kill(os.getpid(), signal.SIGTERM)

    try:
        with running_stub() as stub:
            run = driven(stub.base_url, [request(0, 30.0)], should_stop=stop.is_set, on_progress=on_progress)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert run.reasons() == {"not_sent/interrupted": 1}


def test_a_bug_in_a_callback_ends_the_drive_and_is_not_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("a bug of ours")

    monkeypatch.setattr("testbed.drive.schedule.record_sent", broken)
    journal = JournalWriter(tmp_path, "drive")
    with running_stub() as stub, pytest.raises(ZeroDivisionError, match="a bug of ours"):
        drive([request(0, 0.0), request(1, 25.0)], Endpoint(stub.base_url, "stub"), journal, request_id=name_of)
    journal.close()


STARTER = """
import os
from testbed.stub.process import running_stub
with running_stub("--hang-every", "1") as stub:
    print(stub.process.pid, flush=True)
    os.kill(os.getpid(), 9)
"""


def test_a_stand_in_ends_with_the_process_that_started_it() -> None:
    starter = subprocess.run([sys.executable, "-c", STARTER], capture_output=True, text=True, check=False, timeout=30)
    stub_pid = int(starter.stdout)
    wait_for(lambda: _gone(stub_pid), limit_s=10, what="the stand-in to end")


def _gone(pid: int) -> bool:
    """No such process, or one that only waits to be reaped."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return True
    return state == "Z"
