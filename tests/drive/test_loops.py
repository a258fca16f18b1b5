"""Sends that wait: for the answer before them, or for a free place; and users that leave."""

from collections.abc import Callable

import pytest

from testbed.drive.options import DriveOptions, Wording
from testbed.errors import SpecError
from testbed.missing import Missing
from tests.drive.conftest import PAUSE_LIMIT_S, Driver, request
from tests.drive.scripted import DONE, SSE_HEAD, Post, Step, event, plain, serving, token, usage, whole

MS = 0.001


def always(*steps: Step) -> Callable[[Post], tuple[Step, ...]]:
    return lambda post: steps


def test_a_turn_is_due_when_the_answer_before_it_is_there_and_read(driven: Driver) -> None:
    requests = [request(0), request(1, 0.01, after=0, think_s=0.05), request(2, 0.3, after=0)]
    with serving(always(0.05, whole())) as server:
        run = driven(server.base_url, requests)
    assert run.reasons() == {"ok": 3}
    # 1: the end of 0 and 50 ms; 2: its own time, which is later
    assert run.scheduled_s(1) == pytest.approx(run.ended_s(0) + 0.05, abs=1e-6)
    assert run.scheduled_s(2) == 0.3
    assert run.ended[1].sent_at_ns is not None
    assert run.ended[1].sent_at_ns >= run.ended[1].scheduled_at_ns


def test_a_turn_goes_on_after_one_that_failed(driven: Driver) -> None:
    with serving(lambda post: (plain(500, {}),) if post.request_id.endswith(".0") else (whole(),)) as server:
        run = driven(server.base_url, [request(0), request(1, after=0)])
    assert (run.ended[0].reason, run.ended[1].outcome) == ("failed/http_500", "ok")


def test_a_turn_goes_on_after_one_that_was_never_sent(driven: Driver) -> None:
    # the deadline of 1 is the moment at which it is due
    with serving(always(whole())) as server:
        run = driven(server.base_url, [request(0), request(1, after=0, timeout_s=0.0), request(2, after=1)])
    assert [run.ended[index].reason for index in range(3)] == ["", "not_sent/deadline_passed", ""]


def test_in_a_closed_loop_no_more_are_in_flight_and_the_place_sets_the_time(driven: Driver) -> None:
    with serving(always(0.03, whole())) as server:
        run = driven(server.base_url, [request(index) for index in range(12)], options=DriveOptions(max_concurrency=3))
    assert run.reasons() == {"ok": 12}
    assert run.result.peak_open == 3
    scheduled = sorted(run.scheduled_s(index) for index in range(12))
    ends = sorted(run.ended_s(index) for index in range(12))
    # three places are free at the zero, the others when a request has ended: the nine first ends in their order
    assert scheduled[:3] == [0.0] * 3
    assert scheduled[3:] == pytest.approx(ends[:9], abs=1e-9)
    assert isinstance(run.result.send_lag_max_s, float)
    assert run.result.send_lag_max_s < PAUSE_LIMIT_S


def test_a_place_that_was_free_before_changes_no_time(driven: Driver) -> None:
    requests = [request(0), request(1, PAUSE_LIMIT_S)]
    with serving(always(whole())) as server:
        run = driven(server.base_url, requests, options=DriveOptions(max_concurrency=1))
    assert [run.scheduled_s(index) for index in range(2)] == [0.0, PAUSE_LIMIT_S]


def test_hundreds_whose_deadline_has_passed_are_counted_and_none_is_sent(driven: Driver) -> None:
    # the first answer never comes; the others have no time at all once its place is free
    requests = [request(index, timeout_s=0.2 if index == 0 else 0.0) for index in range(1000)]
    with serving(always("hang")) as server:
        run = driven(server.base_url, requests, options=DriveOptions(max_concurrency=1))
    assert run.reasons() == {"timed_out/no_token": 1, "not_sent/deadline_passed": 999}
    assert len(server.posts) == 1


@pytest.mark.parametrize(("workers", "most"), [(0, None), (1, 0), (3, 2)])
def test_options_that_can_not_be_kept_are_refused(workers: int, most: int | None) -> None:
    with pytest.raises(SpecError, match=r"at least"):
        DriveOptions(workers=workers, max_concurrency=most)


def test_a_user_leaves_after_so_many_tokens_and_those_are_kept(driven: Driver) -> None:
    steps: tuple[Step, ...] = (SSE_HEAD + token(1, 2), token(3, 4) + token(5), 0.05, token(6), "hang")
    with serving(always(*steps)) as server:
        run = driven(server.base_url, [request(0, leaves_after_tokens=3), request(1, leaves_after_tokens=6)])
    # 3 tokens are passed by the second chunk; what comes after it, even in the same read, is not looked at
    assert (run.ended[0].outcome, run.ended[0].reason) == ("cancelled", "cancelled/left")
    assert (run.ended[0].token_ids, run.ended[0].chunk_tokens) == ([1, 2, 3, 4], [2, 2])
    assert run.ended[1].token_ids == [1, 2, 3, 4, 5, 6]
    assert run.result.counts["cancelled"] == 2


def test_the_server_sees_that_a_user_has_left(driven: Driver) -> None:
    with serving(always(SSE_HEAD + token(1), "hang")) as server:
        driven(server.base_url, [request(0, leaves_after_tokens=1)])
    assert server.posts[0].is_gone


def test_a_user_who_would_leave_later_gets_the_whole_answer(driven: Driver) -> None:
    with serving(always(whole(2))) as server:
        run = driven(server.base_url, [request(0, leaves_after_tokens=3)])
    assert run.reasons() == {"ok": 1}


def test_a_chat_counts_by_usage_and_keeps_both_counts_of_the_prompt(driven: Driver) -> None:
    def chunk(text: str, finish: str | None = None, **more: str) -> bytes:
        return event({"choices": [{"index": 0, "delta": {"content": text, **more}, "finish_reason": finish}]})

    answer = SSE_HEAD + chunk("", role="assistant") + chunk("a b") + chunk(" c d e", "length") + usage(17, 5) + DONE
    wording = Wording(lambda ids: " ".join(map(str, ids)), chat=True)
    with serving(always(answer)) as server:
        run = driven(server.base_url, [request(0)], options=DriveOptions(wording=wording))
    ended = run.ended[0]
    assert server.posts[0].path == "/v1/chat/completions"
    assert server.posts[0].body["messages"][0]["content"] == "1 2 0"
    # the role alone is no token; 5 tokens in 2 chunks can't be divided, their sum is known
    assert (ended.outcome, len(ended.chunk_at_ns), ended.chunk_tokens) == ("ok", 2, [])
    assert ended.usage_output_tokens == 5
    assert (run.planned[0].prompt_tokens, ended.usage_prompt_tokens) == (3, 17)


def test_forced_length_salt_and_priority_reach_the_server(driven: Driver) -> None:
    requests = [request(0, max_tokens=3, stop="forced", cache_salt="a", priority=2), request(1, max_tokens=2)]
    with serving(always(whole())) as server:
        driven(server.base_url, requests)
    first, second = server.by_id()["R.arm.0.0"].body, server.by_id()["R.arm.0.1"].body
    keys = ("max_tokens", "min_tokens", "ignore_eos", "cache_salt", "priority")
    assert [first.get(key) for key in keys] == [3, 3, True, "a", 2]
    assert [second.get(key) for key in keys] == [2, None, None, None, None]


def test_a_lag_needs_a_hundred_requests_for_its_p99(driven: Driver) -> None:
    with serving(always(whole(1))) as server:
        run = driven(server.base_url, [request(index) for index in range(99)])
    assert run.result.send_lag_p99_s == Missing("99 requests were sent, this needs 100")
