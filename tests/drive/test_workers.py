"""Several client processes: one schedule, one zero, a shard of the journal each, and none left behind."""

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec
import psutil
import pytest

from testbed.clock import now_ns, wait_for
from testbed.drive.endpoint import Endpoint
from testbed.drive.options import DriveOptions
from testbed.drive.orders import FromWorker, Go, IsReady, Order, Stop, ToWorker
from testbed.drive.pace import Standing, Tally
from testbed.drive.result import Progress
from testbed.drive.share import Share, written_share
from testbed.errors import RunError
from testbed.journal.events import RequestEnded, RequestSent
from tests.drive.conftest import Driver, events_of, name_of, request
from tests.drive.scripted import Scripted, serving, whole

KEY = "a key that is made up"
Said = TypeVar("Said", IsReady, Standing, Tally)


def children() -> list[int]:
    """The processes that this one has started."""
    return sorted(child.pid for child in psutil.Process().children())


def test_workers_send_each_request_once_at_its_time(driven: Driver, tmp_path: Path) -> None:
    told: list[Progress] = []
    requests = [request(index, index * 0.005) for index in range(40)] + [request(40, 0.1, after=3), request(41, 0.3)]
    with serving(lambda post: (0.02, whole(1))) as server:
        run = driven(
            Endpoint(server.base_url, "m", api_key=KEY), requests, on_progress=told.append,
            options=DriveOptions(workers=2, max_concurrency=40),
        )
    assert run.result.counts["ok"] == run.result.planned == len(run.ended) == len(run.planned) == 42
    assert Counter(post.request_id for post in server.posts) == {f"R.arm.0.{index}": 1 for index in range(42)}
    assert [run.scheduled_s(index) for index in range(40)] == pytest.approx([index * 0.005 for index in range(40)])
    # each process has half, by the index; 40 follows 3 and is where that is
    shares: dict[int, set[str]] = {}
    for one in run.sent.values():
        shares.setdefault(one.pid, set()).add(one.request_id)
    assert sorted(len(share) for share in shares.values()) == [20, 22]
    assert any({"R.arm.0.3", "R.arm.0.40", "R.arm.0.41"} <= share for share in shares.values())
    assert os.getpid() not in shares
    assert all((one.arm, one.repetition) == ("arm", 0) for one in run.events)
    assert {post.headers["authorization"] for post in server.posts} == {f"Bearer {KEY}"}
    assert not any(KEY in path.read_text() for path in tmp_path.rglob("*") if path.is_file())
    assert isinstance(run.result.send_lag_p50_s, float)
    assert run.result.client_cpu_s > 0
    assert (told[-1].sent, told[-1].ended, told[-1].counts["ok"]) == (42, 42, 42)
    assert children() == []


def test_a_worker_that_is_killed_ends_the_drive_with_its_name(driven: Driver, tmp_path: Path) -> None:
    def kill_one(progress: Progress) -> None:
        if progress.in_flight == 2 and not killed:
            killed.append(children()[1])
            os.kill(killed[0], signal.SIGKILL)

    killed: list[int] = []
    with serving(lambda post: ("hang",)) as server, pytest.raises(RunError, match=r"client worker \d of 2 .*status -9"):
        driven(
            server.base_url, [request(0), request(1)], on_progress=kill_one, options=DriveOptions(workers=2)
        )
    assert children() == []
    assert all(post.is_gone for post in server.posts)
    events = events_of(tmp_path / "events")
    assert sum(isinstance(one, RequestSent) for one in events) == 2


def test_a_stop_reaches_the_workers(driven: Driver) -> None:
    told: list[Progress] = []
    with serving(lambda post: ("hang",)) as server:
        run = driven(
            server.base_url, [request(0), request(1), request(2, 30.0), request(3, 30.0)], on_progress=told.append,
            should_stop=lambda: bool(told) and told[-1].in_flight == 2, options=DriveOptions(workers=2),
        )
    assert run.result.interrupted
    assert run.reasons() == {"cancelled/no_token": 2, "not_sent/interrupted": 2}


def test_a_worker_for_which_nothing_is_left_is_not_started(driven: Driver) -> None:
    with serving(lambda post: (whole(1),)) as server:
        run = driven(server.base_url, [request(0), request(2)], options=DriveOptions(workers=2))
    assert {one.pid for one in run.events} == {os.getpid()}


class Direct:
    """One worker process, talked to without a drive."""

    def __init__(self, share: Share, server: Scripted, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "testbed.drive.worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            pass_fds=share.files,
        )
        items, bodies = (f"/dev/fd/{number}" for number in share.files)
        host, _, port = server.base_url.removeprefix("http://").partition(":")
        self.say(Order(
            items=items, bodies=bodies, count=share.count, base_url=server.base_url, model="m",
            address=(host, int(port)), path="/v1/completions", journal_folder=str(folder), journal_name="client0",
            arm="arm", repetition=0, keep_in_flight_on_stop=True,
        ))

    def say(self, message: ToWorker) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(msgspec.json.encode(message) + b"\n")
        self.process.stdin.flush()

    def hear(self, kind: type[Said]) -> Said:
        """The next message of this kind."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            said = msgspec.json.decode(line, type=FromWorker)
            if isinstance(said, kind):
                return said
        raise AssertionError("the worker has ended")


@contextmanager
def direct(server: Scripted, folder: Path) -> Iterator[Direct]:
    """A worker in flight with one request that hangs and one that is far off."""
    with written_share([request(0), request(1, 30.0)], name_of, lambda one: b"{}") as share:
        worker = Direct(share, server, folder)
        with worker.process:
            try:
                worker.hear(IsReady)
                worker.say(Go(now_ns()))
                wait_for(lambda: len(server.posts) == 1, limit_s=20, what="the worker to send")
                yield worker
            finally:
                worker.process.kill()


def test_a_worker_waits_for_what_is_in_flight_until_it_is_told_to_drop_it(tmp_path: Path) -> None:
    with serving(lambda post: ("hang",)) as server, direct(server, tmp_path) as worker:
        worker.say(Stop(drop=False))
        assert worker.hear(Standing).in_flight == 1
        worker.say(Stop(drop=True))
        tally = worker.hear(Tally)
        assert worker.process.wait(10) == 0
    assert (tally.counts, tally.interrupted) == ({"cancelled": 1, "not_sent": 1}, True)


def test_a_worker_whose_stdin_ends_drops_all_and_ends(tmp_path: Path) -> None:
    with serving(lambda post: ("hang",)) as server, direct(server, tmp_path) as worker:
        assert worker.process.stdin is not None
        worker.process.stdin.close()
        assert worker.hear(Tally).counts == {"cancelled": 1, "not_sent": 1}
        worker.process.wait(10)
    assert server.posts[0].is_gone
    reasons = {one.reason for one in events_of(tmp_path) if isinstance(one, RequestEnded)}
    assert reasons == {"cancelled/no_token", "not_sent/interrupted"}
