"""Several client processes: one schedule, one zero, a shard of the journal each, and none left behind."""

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import psutil
import pytest

from testbed.clock import wait_for
from testbed.drive.endpoint import Endpoint
from testbed.drive.options import DriveOptions
from testbed.drive.result import Progress
from testbed.errors import RunError
from testbed.journal.events import RequestSent
from tests.drive.conftest import Driver, events_of, request
from tests.drive.scripted import Scripted, serving, whole

KEY = "a key that is made up"


def children() -> list[int]:
    """The processes that this one has started."""
    return sorted(child.pid for child in psutil.Process().children())


def test_workers_send_each_request_once_at_its_time(driven: Driver, tmp_path: Path) -> None:
    """Three drives with 2 workers would be slow to start, so one shows all that several processes must keep."""
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


STARTER = """
import os, sys
from pathlib import Path
from testbed.drive.schedule import DriveOptions, drive
from testbed.drive.endpoint import Endpoint
from testbed.journal.writer import JournalWriter
from tests.drive.conftest import name_of, request
drive(
    [request(0), request(1)], Endpoint(sys.argv[1], "m"), JournalWriter(Path(sys.argv[2]), "drive"),
    request_id=name_of, options=DriveOptions(workers=2),
)
"""


def test_workers_end_with_the_process_that_started_them(tmp_path: Path) -> None:
    with serving(lambda post: ("hang",)) as server:
        starter = subprocess.Popen([sys.executable, "-c", STARTER, server.base_url, str(tmp_path)])
        try:
            wait_for(lambda: len(server.posts) == 2, limit_s=20, what="both workers to send")
        finally:
            starter.kill()
            starter.wait(10)
        wait_for(lambda: all_gone(server), limit_s=10, what="the workers to let go")


def all_gone(server: Scripted) -> bool:
    return all(post.is_gone for post in server.posts)
