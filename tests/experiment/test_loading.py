"""One load from its plan to a closed record, against the stand-in."""

import errno
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from testbed.checks.runner import check_analysis, exit_code
from testbed.drive.endpoint import Endpoint
from testbed.drive.options import DriveOptions
from testbed.drive.result import Progress
from testbed.errors import RunError
from testbed.experiment.asking import Served
from testbed.experiment.folders import Folders
from testbed.experiment.greeting import greet, warm_up_requests
from testbed.experiment.load_plan import Asked, Load, plan_load, traffic_of_flags
from testbed.experiment.loading import LoadStop, Watcher, run_load
from testbed.journal.events import Event
from testbed.journal.run import Run, open_run
from testbed.journal.writer import JournalWriter
from testbed.metrics.analysis import Analysis
from testbed.stub.process import RunningStub, running_stub
from testbed.workload.described import Described
from tests.patience import be_patient

SERVED = Served(("stub",), (None,))
FAST = Described(requests=20, rate_rps=200.0, input_len=30, output_len=4)
KEY = "made-up-key"


@pytest.fixture(scope="module")
def stub() -> Iterator[RunningStub]:
    """A stand-in that takes any key, remembers all that it is sent, and is quick."""
    with running_stub("--ttft-ms", "2", "--itl-ms", "1", "--log", "bodies") as running:
        yield running


@pytest.fixture(scope="module")
def hanging() -> Iterator[RunningStub]:
    """A stand-in that never answers."""
    with running_stub("--hang-every", "1") as running:
        yield running


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A corpus that is enough for these tests, no question to git, and patience with a machine that others use too."""
    be_patient(monkeypatch)
    monkeypatch.setattr("testbed.experiment.prompts.SEEDED_TOKENS", 2_000)
    monkeypatch.setattr("testbed.experiment.loading.git_commit", lambda: None)


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(tmp_path / "cache", tmp_path / "state", tmp_path / "results")


def planned(described: Described = FAST, url: str = "http://h:1", **asked: object) -> Load:
    """A load of described traffic."""
    return plan_load(replace(Asked(url=url, traffic=traffic_of_flags(described)), **asked), SERVED)  # type: ignore[arg-type]


def options_of(load: Load, *, drain: bool = False) -> DriveOptions:
    """As the verb makes them."""
    cap, wording = load.facts.max_concurrency, load.prompts.wording
    return DriveOptions(max_concurrency=cap, wording=wording, keep_in_flight_on_stop=drain)


def nobody(progress: Progress) -> None:
    """Nobody watches."""


def driven(load: Load, stub: RunningStub, folders: Folders, key: str | None = None) -> Run:
    """The run of a load against a stand-in."""
    endpoint = Endpoint(stub.base_url, load.model, key)
    folder = run_load(
        load, endpoint, options_of(load), folders, stop=LoadStop(drain=False), talk=lambda text: None,
        watcher=Watcher(lambda zero_at_ns: None, nobody),
    )
    return open_run(folder)


def test_a_load_is_a_run_that_says_what_it_is_and_passes_its_checks(stub: RunningStub, folders: Folders) -> None:
    run = driven(planned(goodput=["ttft:1000", "e2el:2000"]), stub, folders)
    manifest = run.manifest
    assert (manifest.kind, manifest.status, manifest.stub, manifest.block_size) == ("load", "complete", True, None)
    assert manifest.load is not None
    assert (manifest.load.request_rate, manifest.load.arrival, manifest.load.prompts) == (200.0, "poisson", "ids")
    assert (manifest.limits["random"].ttft_s, manifest.limits["random"].tpot_s) == (1.0, None)
    analysis = Analysis(run)
    assert len(analysis.views) == 20
    assert all(view.row.ok for view in analysis.views)
    assert exit_code(check_analysis(analysis), run) == 0


def test_no_key_lands_in_any_file_of_the_run(stub: RunningStub, folders: Folders) -> None:
    driven(planned(), stub, folders, KEY)
    written = [path for path in folders.results.rglob("*") if path.is_file()]
    assert len(written) >= 2
    assert [path.name for path in written if KEY.encode() in path.read_bytes()] == []


def test_a_closed_loop_has_no_more_in_flight_than_its_cap(stub: RunningStub, folders: Folders) -> None:
    load = planned(Described(requests=12, max_concurrency=3, input_len=10, output_len=3))
    assert (load.facts.arrival, load.facts.max_concurrency) == ("closed", 3)
    run = driven(load, stub, folders)
    assert all(view.row.ok for view in Analysis(run).views)
    moments = [
        (at_ns, change) for view in Analysis(run).views if view.row.ended is not None and view.row.ended.sent_at_ns
        for at_ns, change in ((view.row.ended.sent_at_ns, 1), (view.row.ended.ended_at_ns, -1))
    ]
    in_flight = [sum(change for at_ns, change in moments if at_ns <= now_ns) for now_ns, _ in moments]
    assert max(in_flight) == 3


def test_chat_sends_words_where_there_is_no_tokenizer(
    stub: RunningStub, folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("testbed.experiment.prompts.stdlib_text", lambda: " ".join(map(str, range(500))))
    load = planned(path="/v1/chat/completions")
    assert (load.facts.prompts, load.facts.lengths) == ("chat", "words")
    assert load.prompts.wording is not None
    text = load.prompts.wording.text_of(load.planned.requests[0].prompt)
    assert len(text.split()) == 30
    assert all(view.row.ok for view in Analysis(driven(load, stub, folders)).views)


def test_the_question_and_warm_ups_are_like_the_schedule_and_share_no_prefix_with_it(stub: RunningStub) -> None:
    load = planned(Described(requests=5, rate_rps=100.0, input_len=30, output_len=4))
    before = len(stub.log()["posts"])
    said: list[str] = []
    greet(load, Endpoint(stub.base_url, "stub"), SERVED, 2, said.append)
    asked = [post["request_id"] for post in stub.log()["posts"][before:]]
    assert asked == ["load.question.0.0", "load.warmup.0.0", "load.warmup.0.1"]
    assert said == ["warming up with 2 requests"]
    warm = list(warm_up_requests(load, 3))
    assert {len(one.prompt) for one in warm} == {30}
    assert {one.prompt[:2] for one in warm}.isdisjoint({one.prompt[:2] for one in load.planned.requests})


@pytest.mark.parametrize(("drain", "outcome"), [(False, "cancelled"), (True, "timed_out")])
def test_an_interrupt_ends_the_sending_and_keeps_what_was_measured(
    drain: bool, outcome: str, hanging: RunningStub, folders: Folders
) -> None:
    timeout_s = 0.4 if drain else 60.0
    load = planned(Described(requests=40, rate_rps=20.0, input_len=5, output_len=2, timeout_s=timeout_s))
    stop = LoadStop(drain=drain)

    def interrupt(progress: Progress) -> None:
        """As soon as two are on their way."""
        if progress.in_flight >= 2 and not stop.asked:
            stop.ask()

    folder = run_load(
        load, Endpoint(hanging.base_url, "stub"), options_of(load, drain=drain), folders, stop=stop,
        talk=lambda text: None, watcher=Watcher(lambda zero_at_ns: None, interrupt),
    )
    run = open_run(folder)
    outcomes = [view.row.ended.outcome for view in Analysis(run).views if view.row.ended is not None]
    assert run.manifest.status == "interrupted"
    assert len(outcomes) == 40
    assert set(outcomes) == {outcome, "not_sent"}
    assert exit_code(check_analysis(Analysis(run)), run) == 4


def test_ctrl_c_again_drops_what_was_waited_for_and_once_more_breaks_off() -> None:
    stop = LoadStop(drain=True)
    with stop.driving():
        assert stop.wording() == "sending no more, waiting for what is in flight; Ctrl-C again drops it"
        stop.ask()
        assert (stop.asked, stop.drop, stop.wording()) == (True, False, "dropping what is in flight")
        stop.ask()
        assert (stop.drop, stop.wording()) == (True, "breaking off")
        with pytest.raises(KeyboardInterrupt):
            stop.ask()


def test_without_drain_the_second_ctrl_c_breaks_off_and_so_does_one_outside_of_a_drive() -> None:
    stop = LoadStop(drain=False)
    with stop.driving():
        assert stop.wording() == "sending no more, dropping what is in flight"
        stop.ask()
        with pytest.raises(KeyboardInterrupt):
            stop.ask()
    with pytest.raises(KeyboardInterrupt):
        LoadStop(drain=True).ask()


class FullDisk(JournalWriter):
    """A journal on a disk that takes no more."""

    def write(self, kind: type[Event], **fields: Any) -> None:
        """In vain."""
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_disk_that_is_full_is_told_and_the_run_is_marked_as_broken(
    stub: RunningStub, folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("testbed.experiment.loading.JournalWriter", FullDisk)
    with pytest.raises(RunError, match="No space left on device"):
        driven(planned(), stub, folders)
    (manifest,) = folders.results.glob("*/manifest.json")
    assert '"status": "broken"' in manifest.read_text()
