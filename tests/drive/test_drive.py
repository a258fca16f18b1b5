"""Driving a server: outcomes, clocks, the open loop and what the journal has of it."""

import os
import signal
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from statistics import median

import pytest

from testbed.clock import now_ns, sleep_s
from testbed.drive.client import Connection, Connections
from testbed.drive.endpoint import Endpoint
from testbed.drive.schedule import DriveOptions, Progress, drive
from testbed.errors import RunError
from testbed.journal.events import ArmBegan, RequestEnded, RequestPlanned
from testbed.journal.writer import JournalWriter
from testbed.missing import Missing
from tests.drive.conftest import PAUSE_LIMIT_S, Driver, events_of, name_of, request
from tests.drive.scripted import DONE, SSE_HEAD, Post, Step, event, plain, serving, token, usage, whole

CLOCK_TOLERANCE_S = 0.02
"""Between the stamps of server and client on one clock, as a median; some 0.5 ms where nothing else runs."""


def always(*steps: Step) -> Callable[[Post], tuple[Step, ...]]:
    return lambda post: steps


def test_all_outcomes_are_told_apart_and_sum_up_to_the_plan(driven: Driver) -> None:
    cut: tuple[Step, ...] = (SSE_HEAD + token(1), "close")
    error = event({"error": {"message": "KV load failed as told", "code": 500}})
    answers: dict[int, tuple[Step, ...]] = {
        5: ("hang",), 10: ("hang",), 7: (plain(500, {"error": {"message": "fails as told"}}),), 4: cut, 8: cut,
        6: (SSE_HEAD + token(1) + error + DONE,), 9: (plain(429, {"error": {"message": "too many"}}),),
        11: (SSE_HEAD + token(1), "reset"),
    }
    with serving(lambda post: answers.get(int(post.request_id[8:]), (whole(),))) as server:
        run = driven(server.base_url, [request(index, index * 0.01, timeout_s=0.5) for index in range(12)])
    assert run.reasons() == {
        "ok": 4, "timed_out/no_token": 2, "failed/http_500": 1, "failed/closed": 2, "failed/error_in_stream": 1,
        "rejected/429": 1, "failed/reset": 1,
    }
    assert run.result.counts == {"ok": 4, "failed": 5, "timed_out": 2, "cancelled": 0, "rejected": 1, "not_sent": 0}
    assert run.result.planned == sum(run.result.counts.values()) == len(run.planned) == len(run.ended) == 12
    errors = {one.reason: one.error for one in run.ended.values()}
    assert errors["failed/http_500"] == "fails as told"
    assert errors["failed/error_in_stream"] == "KV load failed as told"
    assert errors["rejected/429"] == "too many"


def test_a_refusal_has_its_status_and_the_words_of_the_server(driven: Driver) -> None:
    statuses = (400, 401, 404, 503)
    with serving(lambda post: (plain(statuses[int(post.request_id[8:])], {"message": post.request_id}),)) as server:
        run = driven(server.base_url, [request(index) for index in range(4)])
    for index, status in enumerate(statuses):
        ended = run.ended[index]
        assert (ended.outcome, ended.reason, ended.http_status) == ("failed", f"failed/http_{status}", status)
        assert ended.error == f"R.arm.0.{index}"


def test_the_answer_is_kept_with_the_time_of_each_chunk(driven: Driver) -> None:
    steps = (SSE_HEAD + token(7, 8), 0.02, token(9, 10), 0.02, token(11, finish="length"), usage(3, 5), DONE)
    with serving(always(*steps)) as server:
        run = driven(server.base_url, [request(0, max_tokens=5)])
    ended, sent_at_ns = run.ended[0], server.posts[0].sent_at_ns
    assert (ended.token_ids, ended.chunk_tokens) == ([7, 8, 9, 10, 11], [2, 2, 1])
    assert (ended.finish_reason, ended.http_status) == ("length", 200)
    assert (ended.usage_prompt_tokens, ended.usage_output_tokens, ended.usage_cached_tokens) == (3, 5, None)
    assert (ended.first_token_at_ns, ended.last_token_at_ns) == (ended.chunk_at_ns[0], ended.chunk_at_ns[-1])
    late_s = [(got - sent) / 1e9 for got, sent in zip(ended.chunk_at_ns, sent_at_ns[:3], strict=True)]
    assert all(0 <= late < PAUSE_LIMIT_S for late in late_s)


def test_ttft_agrees_with_the_stamps_of_the_server(driven: Driver) -> None:
    with serving(always(0.03, whole())) as server:
        run = driven(server.base_url, [request(index, index * 0.01) for index in range(25)])
    differences_s = []
    for post in server.posts:
        ended = run.ended[int(post.request_id[8:])]
        assert ended.sent_at_ns is not None
        assert ended.first_token_at_ns is not None
        assert ended.first_byte_at_ns is not None
        by_server_s = (post.sent_at_ns[0] - post.received_at_ns) / 1e9
        by_client_s = (ended.first_token_at_ns - ended.sent_at_ns) / 1e9
        differences_s.append(by_client_s - by_server_s)
        assert ended.sent_at_ns < ended.first_byte_at_ns <= ended.first_token_at_ns <= ended.ended_at_ns
    assert min(differences_s) > 0
    assert median(differences_s) < CLOCK_TOLERANCE_S


def test_a_stalled_server_delays_no_send_and_hides_no_wait(driven: Driver) -> None:
    """A request each 20 ms for 0.8 s, and a server that is frozen for 0.5 s when it gets the tenth."""

    def answer(post: Post) -> tuple[Step, ...]:
        if post.request_id == "R.arm.0.10":
            sleep_s(0.5)
        return (whole(1),)

    with serving(answer) as server:
        run = driven(server.base_url, [request(index, index * 0.02) for index in range(40)])
    assert run.result.counts["ok"] == 40
    assert isinstance(run.result.send_lag_p50_s, float)
    assert run.result.send_lag_p50_s < PAUSE_LIMIT_S / 2
    waits_s = [(one.first_token_at_ns or 0) - one.scheduled_at_ns for one in run.ended.values()]
    # those due at 0.20, 0.22 .. 0.68 are freed at 0.70 or later: the first waits 0.5 s, and 15 of them above 0.2 s
    assert max(waits_s) / 1e9 > 0.49
    assert sum(wait / 1e9 > 0.2 for wait in waits_s) >= 12


def test_three_hundred_requests_at_once_are_all_on_the_wire_at_once(driven: Driver) -> None:
    all_here = threading.Event()

    def answer(post: Post) -> tuple[Step, ...]:
        arrived.append(post.request_id)
        if len(arrived) == 300:
            all_here.set()
        return (all_here, whole(1))

    arrived: list[str] = []
    with serving(answer) as server:
        run = driven(server.base_url, [request(index) for index in range(300)])
    assert run.result.counts["ok"] == 300
    assert run.result.peak_open == 300
    assert isinstance(run.result.send_lag_p99_s, float)
    assert 0 < run.result.client_cpu_s < 10


def test_the_deadline_counts_from_the_scheduled_time(driven: Driver) -> None:
    with serving(always("hang")) as server:
        run = driven(server.base_url, [request(0, 0.05, timeout_s=0.25)])
    assert run.reasons() == {"timed_out/no_token": 1}
    assert 0.3 <= run.ended_s(0) < 0.3 + PAUSE_LIMIT_S


def test_a_deadline_within_the_stream_keeps_what_had_come(driven: Driver) -> None:
    with serving(always(SSE_HEAD + token(1), token(2), "hang")) as server:
        run = driven(server.base_url, [request(0, timeout_s=0.3)])
    assert run.reasons() == {"timed_out/in_stream": 1}
    assert run.ended[0].token_ids == [1, 2]


def test_an_answer_that_waits_to_be_read_when_the_deadline_passes_is_not_late(
    driven: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    # no time to read anything in passing: what has come waits for the look before the verdict
    monkeypatch.setattr("testbed.drive.client.READ_FOR_NS", -1)
    with serving(always(whole(1))) as server:
        run = driven(server.base_url, [request(0, timeout_s=0.3)])
    assert run.reasons() == {"ok": 1}


def test_it_is_told_how_long_the_loop_was_held_up_also_at_the_very_end(driven: Driver) -> None:
    def hold(progress: Progress) -> None:
        if progress.in_flight and not may_answer.is_set():
            may_answer.set()
            sleep_s(0.2)

    may_answer = threading.Event()
    with serving(always(may_answer, whole(1))) as server:
        run = driven(server.base_url, [request(0)], on_progress=hold)
    assert run.result.loop_stall_max_s > 0.18
    assert run.result.loop_stall_count >= 1


def test_no_request_leaves_before_its_time(driven: Driver) -> None:
    with serving(always(whole(1))) as server:
        run = driven(server.base_url, [request(index, index * 0.00137) for index in range(100)])
    assert all(one.sent_at_ns >= one.scheduled_at_ns for one in run.sent.values())
    assert [round(run.scheduled_s(index), 6) for index in (0, 1, 99)] == [0.0, 0.00137, 0.13563]


def test_a_connection_is_used_again(driven: Driver) -> None:
    with serving(always(whole(1))) as server:
        run = driven(server.base_url, [request(index) for index in range(20)], options=DriveOptions(max_concurrency=2))
    assert run.result.counts["ok"] == 20
    # two are made ahead of the zero; where they are not ready in time, two more
    assert server.connections <= 4


def test_all_is_planned_in_the_journal_before_the_zero_is_told_and_none_is_sent_before_it(tmp_path: Path) -> None:
    journal = JournalWriter(tmp_path, "drive")
    seen: list[int] = []

    def on_zero(zero_at_ns: int) -> None:
        assert zero_at_ns > now_ns()
        seen.append(sum(isinstance(one, RequestPlanned) for one in events_of(tmp_path)))
        journal.write(ArmBegan, zero_at_ns=zero_at_ns, probed=False, policy="recompute")

    with serving(always(whole(1))) as server:
        result = drive(
            [request(index, 0.05 * index) for index in range(3)], Endpoint(server.base_url, "stub"), journal,
            request_id=name_of, on_zero=on_zero,
        )
    journal.close()
    assert seen == [3]
    ended = [one for one in events_of(tmp_path) if isinstance(one, RequestEnded)]
    assert sorted(one.scheduled_at_ns - result.zero_at_ns for one in ended) == [0, 50_000_000, 100_000_000]


def test_progress_tells_where_the_drive_stands(driven: Driver) -> None:
    told: list[Progress] = []
    requests = [request(index, 0.0 if index < 3 else 0.2) for index in range(4)]
    with serving(always(0.15, whole(1))) as server:
        driven(server.base_url, requests, on_progress=told.append)
    amid = next(one for one in told if one.in_flight == 3)
    assert (amid.planned, amid.asked, amid.sent, amid.ended, amid.counts["ok"]) == (4, 3, 3, 0, 0)
    assert amid.ttft_p50_s == Missing("no token has come yet")
    last = told[-1]
    assert (last.asked, last.sent, last.ended, last.in_flight, last.counts["ok"]) == (4, 4, 4, 0, 4)
    assert isinstance(last.ttft_p50_s, float)
    assert 0.15 < last.ttft_p50_s < 0.15 + PAUSE_LIMIT_S


def test_nobody_at_the_address_is_a_failure_to_connect(driven: Driver) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        run = driven(f"http://127.0.0.1:{taken.getsockname()[1]}", [request(0), request(1, 0.1)])
    assert run.reasons() == {"failed/connect": 2}
    assert run.sent == {}
    assert run.result.send_lag_p50_s == Missing("0 requests were sent, this needs 1")


def test_a_server_that_takes_no_connection_is_not_stormed(driven: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []

    async def refused(_: Connections) -> Connection:
        tried.append(now_ns())
        raise ConnectionRefusedError("nobody listens")

    monkeypatch.setattr(Connections, "make", refused)
    run = driven("http://127.0.0.1:1", [request(index, 0.2) for index in range(10)])
    assert run.reasons() == {"failed/connect": 10}
    # one by each request, and of those made ahead one round of ten in each quarter of a second
    assert 10 < len(tried) <= 30


RAW_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
RAW_TOKEN = b'data: {"choices": [{"text": " a", "token_ids": [5], "finish_reason": "stop"}]}\n\n'
RAW_DONE = b"data: [DONE]\n\n"


RESPONSES: list[tuple[bytes, Step, str]] = [
    (RAW_HEAD + RAW_TOKEN + RAW_DONE, "close", "ok"),  # a body without length ends with the connection
    (RAW_HEAD + RAW_TOKEN + RAW_DONE, "reset", "ok"),  # after [DONE] no later trouble counts
    (b"HTTP/1.1 100 Continue\r\n\r\n" + RAW_HEAD + RAW_TOKEN + RAW_DONE, "close", "ok"),
    (RAW_HEAD + b"\xef\xbb\xbf" + RAW_TOKEN + RAW_DONE, "close", "ok"),
    (RAW_HEAD + RAW_TOKEN.replace(b"\n", b"\r\n") + b": still here\r\n\r\n" + RAW_DONE, "close", "ok"),
    (RAW_HEAD + RAW_TOKEN, "close", "failed/no_done"),
    (RAW_HEAD + RAW_DONE, "close", "failed/no_token"),
    (RAW_HEAD + b"data: {\n\n", "close", "failed/bad_chunk"),
    (b"SMTP ready\r\n\r\n", "close", "failed/bad_http"),
    (b"", "close", "failed/closed"),
    (b"", "reset", "failed/reset"),
    (b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nhi", "close", "failed/not_a_stream"),
    (b"HTTP/1.1 503 No\r\nContent-Length: 99\r\n\r\nloading", "close", "failed/http_503"),
]


def test_each_way_to_break_a_response_has_its_name(driven: Driver) -> None:
    with serving(lambda post: RESPONSES[int(post.request_id[8:])][:2]) as server:
        run = driven(server.base_url, [request(index) for index in range(len(RESPONSES))])
    found = {index: ended.reason or ended.outcome for index, ended in run.ended.items()}
    assert found == {index: reason for index, (_, _, reason) in enumerate(RESPONSES)}


def test_what_comes_after_a_whole_response_is_no_part_of_it(driven: Driver) -> None:
    strays = (plain(500, {"message": "stray"}), whole(3))
    with serving(lambda post: (whole(1) + strays[int(post.request_id[8:])],)) as server:
        run = driven(server.base_url, [request(0), request(1)])
    for ended in run.ended.values():
        assert (ended.outcome, ended.http_status, ended.token_ids) == ("ok", 200, [0])


def test_two_requests_with_one_id_are_refused(driven: Driver) -> None:
    with pytest.raises(RunError, match="used twice"):
        driven("http://127.0.0.1:1", [request(0), request(0, 1.0)])


def test_an_id_that_would_break_the_header_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    journal = JournalWriter(tmp_path, "drive")
    with pytest.raises(RunError, match="X-Request-Id"):
        drive([request(0)], Endpoint("http://127.0.0.1:1", "m"), journal, request_id=lambda _: "a\r\nb: c")
    journal.close()


def test_a_server_whose_name_nobody_knows_is_refused(driven: Driver) -> None:
    with pytest.raises(RunError, match=r"no-such-host\.invalid is unknown"):
        driven("http://no-such-host.invalid:80", [request(0)])


def test_a_schedule_without_requests_ends_at_once(tmp_path: Path) -> None:
    journal = JournalWriter(tmp_path, "drive")
    result = drive([], Endpoint("http://127.0.0.1:1", "m"), journal, request_id=name_of)
    journal.close()
    assert (result.planned, sum(result.counts.values()), result.interrupted) == (0, 0, False)


def test_the_callers_signal_handler_runs_while_a_drive_is_on(driven: Driver) -> None:
    stop = threading.Event()
    before = signal.signal(signal.SIGTERM, lambda *_: stop.set())
    told: list[Progress] = []

    def on_progress(progress: Progress) -> None:
        told.append(progress)
        if len(told) == 1:
            os.kill(os.getpid(), signal.SIGTERM)

    try:
        run = driven("http://127.0.0.1:1", [request(0, 30.0)], should_stop=stop.is_set, on_progress=on_progress)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert run.reasons() == {"not_sent/interrupted": 1}


@pytest.mark.parametrize("bug", [ZeroDivisionError("a bug of ours"), OSError("a bug of ours")])
@pytest.mark.parametrize("place", ["flight.record_sent", "flight.record_ended", "exchange.Exchange.header"])
def test_a_bug_in_a_callback_ends_the_drive_and_is_not_hidden(
    driven: Driver, monkeypatch: pytest.MonkeyPatch, place: str, bug: Exception
) -> None:
    def broken(*_: object) -> None:
        raise bug

    monkeypatch.setattr(f"testbed.drive.{place}", broken)
    with serving(always(whole(1))) as server, pytest.raises(type(bug), match="a bug of ours"):
        driven(server.base_url, [request(0), request(1, 25.0)])
