"""A stop: what is in flight is dropped or waited for, and every request is counted."""

import threading
from collections.abc import Callable

import pytest

from testbed.drive.options import DriveOptions
from testbed.drive.result import Progress
from tests.drive.conftest import Driver, request
from tests.drive.scripted import DONE, SSE_HEAD, Post, Step, serving, token, usage

REQUESTS = [request(index, index * 0.01) for index in range(3)] + [request(index, 30.0) for index in range(3, 8)]
SLOW: tuple[Step, ...] = (SSE_HEAD + token(1), 0.4, token(2, finish="length"), usage(3, 2), DONE)


def always(*steps: Step) -> Callable[[Post], tuple[Step, ...]]:
    return lambda post: steps


class Stopped:
    """Says to stop as soon as three have been sent."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        self.told: list[Progress] = []

    def on_progress(self, progress: Progress) -> None:
        self.told.append(progress)
        if progress.sent >= 3:
            self._asked.set()

    def should_stop(self) -> bool:
        return self._asked.is_set()


def test_a_stop_sends_nothing_more_and_drops_what_is_in_flight(driven: Driver) -> None:
    stopped = Stopped()
    with serving(always(SSE_HEAD + token(1), "hang")) as server:
        run = driven(server.base_url, REQUESTS, should_stop=stopped.should_stop, on_progress=stopped.on_progress)
    assert run.result.interrupted
    assert run.result.counts == {"ok": 0, "failed": 0, "timed_out": 0, "cancelled": 3, "rejected": 0, "not_sent": 5}
    assert run.reasons() == {"cancelled/in_stream": 3, "not_sent/interrupted": 5}
    assert set(run.sent) == {0, 1, 2} == {int(post.request_id[8:]) for post in server.posts}
    assert all(post.is_gone for post in server.posts)
    assert stopped.told[-1].counts["cancelled"] == 3


def test_a_stop_that_drains_waits_for_what_is_in_flight(driven: Driver) -> None:
    stopped = Stopped()
    with serving(always(*SLOW)) as server:
        run = driven(
            server.base_url, REQUESTS, should_stop=stopped.should_stop, on_progress=stopped.on_progress,
            options=DriveOptions(keep_in_flight_on_stop=True),
        )
    assert run.result.interrupted
    assert run.reasons() == {"ok": 3, "not_sent/interrupted": 5}
    assert run.ended[7].scheduled_at_ns == run.result.zero_at_ns + 30_000_000_000


def test_a_second_stop_ends_the_draining(driven: Driver) -> None:
    stopped, asked = Stopped(), []

    def should_drop() -> bool:
        asked.append(True)
        return len(asked) == 2

    with serving(always(SSE_HEAD + token(1), "hang")) as server:
        run = driven(
            server.base_url, REQUESTS, should_stop=stopped.should_stop, on_progress=stopped.on_progress,
            options=DriveOptions(keep_in_flight_on_stop=True, should_drop=should_drop),
        )
    assert run.reasons() == {"cancelled/in_stream": 3, "not_sent/interrupted": 5}
    assert len(asked) == 2


def test_a_stop_counts_turns_that_wait_for_others(driven: Driver) -> None:
    requests = [request(0), request(1, 0.0, after=0), request(2, 0.01, after=1)]
    with serving(always("hang")) as server:
        run = driven(server.base_url, requests, should_stop=lambda: True)
    assert run.reasons() == {"cancelled/no_token": 1, "not_sent/interrupted": 2}


def test_a_stop_counts_those_that_wait_for_a_place(driven: Driver) -> None:
    with serving(always("hang")) as server:
        run = driven(
            server.base_url, [request(index) for index in range(50)], should_stop=lambda: True,
            options=DriveOptions(max_concurrency=2),
        )
    assert run.reasons() == {"cancelled/no_token": 2, "not_sent/interrupted": 48}


def test_a_keyboard_interrupt_ends_the_drive_at_once_and_the_journal_is_kept(driven: Driver) -> None:
    def on_progress(progress: Progress) -> None:
        raise KeyboardInterrupt

    with serving(always("hang")) as server, pytest.raises(KeyboardInterrupt):
        driven(server.base_url, [request(0)], on_progress=on_progress)
    assert server.posts[0].is_gone
