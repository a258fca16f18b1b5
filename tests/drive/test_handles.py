"""Connections that a schedule needs against those that this process may open, said before the run."""

import errno
import resource

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.drive.client import Connection, Connections
from testbed.drive.handles import certain_open, check_handles, free_handles, worst_open
from testbed.errors import DeployError
from testbed.workload.request import PlannedRequest
from tests.drive.conftest import Driver, request
from tests.drive.scripted import serving, whole


def test_requests_of_one_moment_are_open_at_once_for_certain() -> None:
    requests = [request(0, 0.000), request(1, 0.004), request(2, 0.006), request(3, 0.0, after=0)]
    # the moments are 5 ms long: 0 and 1 share one; 3 waits for the end of 0
    assert certain_open(requests, None) == 2
    assert certain_open(requests, 1) == 1
    assert certain_open([], None) == 0


def test_at_worst_all_stay_open_until_their_deadlines() -> None:
    requests = [request(index, float(index), timeout_s=2.5) for index in range(6)]
    # at 5 s those of 3, 4 and 5 are open; that of 2 ended at 4.5
    assert worst_open(requests, None) == 3
    assert worst_open(requests, 2) == 2


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 20)), max_size=12))
def test_the_worst_is_what_counting_at_each_beginning_gives(rows: list[tuple[int, int]]) -> None:
    requests = [request(index, float(at), timeout_s=float(long)) for index, (at, long) in enumerate(rows)]
    slow = [sum(at <= other < at + long for at, long in rows) for other, _ in rows]
    assert worst_open(requests, None) == max(slow, default=0)


def burst(count: int) -> list[PlannedRequest]:
    return [request(index) for index in range(count)]


def test_a_burst_above_the_limit_is_refused_with_both_numbers() -> None:
    with pytest.raises(DeployError, match="300 requests are due at one moment, and this process may open 200 more"):
        check_handles(burst(300), None, 200)
    assert check_handles(burst(300), 200, 200) is None


def test_a_schedule_that_fits_while_the_server_answers_is_warned_of() -> None:
    requests = [request(index, 0.1 * index, timeout_s=100.0) for index in range(300)]
    warning = check_handles(requests, None, 200)
    assert warning is not None
    assert "up to 300 requests" in warning
    assert "200 more connections" in warning
    assert check_handles(requests, None, 300) is None


def test_all_handles_that_are_allowed_are_asked_for() -> None:
    before, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, hard), hard))
    try:
        assert 0 < free_handles() < hard
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (before, hard))


def test_a_drive_that_can_not_open_its_connections_sends_nothing(
    driven: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("testbed.drive.schedule.free_handles", lambda: 9)
    with serving(lambda post: (whole(1),)) as server, pytest.raises(DeployError, match="10 requests are due"):
        driven(server.base_url, burst(10))
    assert server.posts == []


def test_a_drive_that_may_lack_connections_says_so_in_result_and_journal(
    driven: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("testbed.drive.schedule.free_handles", lambda: 9)
    with serving(lambda post: (whole(1),)) as server:
        run = driven(server.base_url, [request(index, 0.01 * index) for index in range(10)])
    assert run.result.counts["ok"] == 10
    assert len(run.result.warnings) == 1
    assert run.notes == list(run.result.warnings)


def test_a_request_for_which_this_process_may_open_no_connection_was_not_sent(
    driven: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(_: Connections) -> Connection:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(Connections, "make", refused)
    run = driven("http://127.0.0.1:1", [request(0)])
    assert (run.ended[0].outcome, run.ended[0].reason) == ("not_sent", "not_sent/client_limit")
    assert "Too many open files" in str(run.ended[0].error)
