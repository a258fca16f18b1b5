"""When the stand-in answers, what it does wrong when told to, and what it keeps of it."""

import http.client
import socket
from typing import Any

import pytest

from testbed.clock import now_ns, wait_for
from testbed.stub.log import all_stamps, stamps_by_id
from tests.stub.conftest import LIMIT_S, Caller, Start

LATE_S = 0.25
"""So long a busy machine may hold this process up; what is tested for is longer, or is not early."""


def stream(tokens: int = 4) -> dict[str, Any]:
    return {"prompt": [1, 2], "max_tokens": tokens, "stream": True}


def waits_s(post: dict[str, Any]) -> list[float]:
    return [(at_ns - post["received_at_ns"]) / 1e9 for at_ns in post["sent_at_ns"]]


def test_each_chunk_leaves_when_its_last_token_is_due_and_not_before(stub: Start) -> None:
    caller = stub("--ttft-ms", "20", "--itl-ms", "5", "--tokens-per-chunk", "2")()
    for _ in range(5):
        caller.post(stream(5))
    # tokens 0..4 are due at 20, 25, 30, 35, 40 ms; the chunks end with tokens 1, 3 and 4
    due_s = [0.025, 0.035, 0.040]
    late_s = [[wait - due for wait, due in zip(waits_s(post), due_s, strict=True)] for post in caller.posts()]
    assert min(map(min, late_s)) >= 0
    assert min(map(max, late_s)) < 0.01


def test_a_burst_is_one_write_after_the_time_to_first_token(stub: Start) -> None:
    caller = stub("--ttft-ms", "30", "--itl-ms", "1000", "--burst")()
    with socket.create_connection(("127.0.0.1", caller.port), timeout=LIMIT_S) as raw:
        body = b'{"prompt": [1], "max_tokens": 8, "stream": true}'
        raw.sendall(b"POST /v1/completions HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        at_once = raw.recv(65536)
    assert at_once.startswith(b"HTTP/1.1 200")
    assert at_once.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")
    (wait_s,) = waits_s(caller.posts()[0])
    assert 0.03 <= wait_s < 0.03 + LATE_S


def test_a_plain_answer_comes_when_its_last_token_is_due(stub: Start) -> None:
    caller = stub("--ttft-ms", "20", "--itl-ms", "10")()
    began_ns = now_ns()
    caller.post({"prompt": [1], "max_tokens": 4})
    # 20 + 3 x 10 ms
    assert (now_ns() - began_ns) / 1e9 >= 0.05


def test_nothing_leaves_in_a_freeze(stub: Start) -> None:
    connect = stub("--ttft-ms", "40", "--itl-ms", "0", "--freeze", "0.02:0.2")
    first, second = connect(), connect()
    first.begin(stream(1))
    first.end()
    second.post(stream(1))
    posts = first.posts()
    # due at 0.04 s, within the freeze from 0.02 to 0.22 s after the first; the second came after it
    assert 0.22 <= waits_s(posts[0])[0] < 0.22 + LATE_S
    assert 0.04 <= waits_s(posts[1])[0] < 0.04 + LATE_S


def test_what_has_no_slot_waits_in_order_and_its_times_begin_then(stub: Start) -> None:
    connect = stub("--ttft-ms", "40", "--itl-ms", "0", "--slots", "2")
    callers = [connect() for _ in range(4)]
    for number, caller in enumerate(callers):
        caller.begin(stream(1), X_Request_Id=str(number))
        wait_for_posts(callers[0].port, number + 1)
    for caller in callers:
        caller.end()
    waits = {post["request_id"]: waits_s(post)[0] for post in callers[0].posts()}
    assert all(waits[name] >= 0.04 for name in "01")
    # the others begin when those before them have ended
    log = callers[0].posts()
    assert min(log[2]["sent_at_ns"][0], log[3]["sent_at_ns"][0]) >= log[0]["sent_at_ns"][0] + 40_000_000


def wait_for_posts(port: int, count: int) -> None:
    asker = Caller(port)
    wait_for(lambda: asker.get("/_log").json["count"] >= count, limit_s=LIMIT_S, what="a request", every_s=0.001)
    asker.close()


def test_more_in_flight_than_allowed_are_rejected(stub: Start) -> None:
    connect = stub("--ttft-ms", "60", "--reject-above", "1")
    first, second = connect(), connect()
    first.begin(stream())
    wait_for_posts(first.port, 1)
    assert second.post(stream()).status == 429
    assert first.end().status == 200
    assert second.post(stream()).status == 200
    assert [post["ended"] for post in first.posts()] == ["served", "rejected", "served"]


def test_a_client_that_leaves_frees_its_slot(stub: Start) -> None:
    connect = stub("--ttft-ms", "5", "--itl-ms", "20000", "--slots", "1")
    gone, stays = connect(), connect()
    gone.begin(stream(2))
    wait_for_posts(gone.port, 1)
    gone.close()
    assert len(stays.post(stream(1)).events) == 2
    asker = connect()
    assert asker.get("/_log").json["ended"] == {"client_gone": 1, "served": 1}


def test_one_that_leaves_while_it_waits_takes_no_slot(stub: Start) -> None:
    connect = stub("--ttft-ms", "80", "--slots", "1")
    first, gone, last = connect(), connect(), connect()
    for number, caller in enumerate((first, gone, last), start=1):
        caller.begin(stream(1))
        wait_for_posts(first.port, number)
    gone.close()
    assert first.end().status == last.end().status == 200
    ended = first.get("/_log").json["ended"]
    assert ended == {"client_gone": 1, "served": 2}
    assert connect().post(stream(1)).status == 200


@pytest.mark.parametrize("burst", [(), ("--burst",)])
def test_each_misbehaviour_strikes_the_posts_that_it_should(stub: Start, burst: tuple[str, ...]) -> None:
    connect = stub("--ttft-ms", "1", "--itl-ms", "1", *burst, "--skip-posts", "1", "--cut-every", "2", "--error-every",
                   "3", "--fail-every", "5", "--reset-every", "7")
    ends = []
    for _ in range(9):
        try:
            answer = connect().post(stream())
            ends.append("error" if b"KV load failed" in answer.body else str(answer.status))
        except http.client.IncompleteRead:
            ends.append("cut")
        except ConnectionResetError:
            ends.append("reset")
    # the first does not count; of 1..8: 2, 4, 6 and 8 are cut (6 before its error), 3 has an error, 5 fails, 7 is reset
    assert ends == ["200", "200", "cut", "error", "cut", "500", "cut", "reset", "cut"]
    log = connect().posts()
    assert [post["ended"] for post in log[1:4]] == ["served", "cut", "error"]
    assert len(log[2]["sent_at_ns"]) == 1


def test_a_hang_is_open_until_the_client_leaves(stub: Start) -> None:
    connect = stub("--hang-every", "1")
    hung = connect()
    hung.begin(stream())
    wait_for_posts(hung.port, 1)
    asker = connect()
    assert (asker.get("/_log").json["ended"], asker.posts()[0]["ended"]) == ({"hung": 1}, "hung")
    hung.close()


def test_the_most_that_were_open_at_once_are_counted(stub: Start) -> None:
    connect = stub("--ttft-ms", "100", "--log", "counts")
    callers = [connect() for _ in range(5)]
    for caller in callers:
        caller.begin(stream(1))
    for caller in callers:
        caller.end()
    callers[0].post(stream(1))
    assert callers[0].get("/_log").json == {"posts": [], "peak_open": 5, "count": 6, "ended": {"served": 6}}


def test_stamps_travel_in_columns(stub: Start) -> None:
    caller = stub("--ttft-ms", "2", "--itl-ms", "1")()
    caller.post(stream(3), X_Request_Id="a")
    caller.post({"prompt": [1], "max_tokens": 1})
    caller.post(stream(1), X_Request_Id="b")
    log, posts = caller.columns(), caller.posts()
    assert log.ids == ["a", None, "b"]
    assert [list(one.sent_at_ns) for one in all_stamps(log)] == [post["sent_at_ns"] for post in posts]
    assert [len(one.sent_at_ns) for one in all_stamps(log)] == [3, 0, 1]
    one = stamps_by_id(log)["b"]
    assert one.begun_at_ns <= one.received_at_ns == posts[2]["received_at_ns"]


def test_without_a_log_only_numbers_are_kept(stub: Start) -> None:
    caller = stub("--log", "none", "--ttft-ms", "0")()
    caller.post(stream())
    assert caller.get("/_log").json == {"posts": [], "peak_open": 1, "count": 1, "ended": {}}
    assert caller.columns().ids == []


def test_bodies_are_kept_where_they_are_asked_for(stub: Start) -> None:
    caller = stub("--log", "bodies", "--ttft-ms", "0")()
    caller.post({"prompt": [1], "max_tokens": 1, "priority": 3})
    assert caller.posts()[0]["body"] == {"prompt": [1], "max_tokens": 1, "priority": 3}
