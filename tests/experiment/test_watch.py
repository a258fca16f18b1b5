"""What the engine's log and the journal tell while an arm runs."""

from pathlib import Path

from testbed.experiment.watch import EngineLog, Watch
from testbed.journal.events import FaultApplied, KvLookup
from testbed.journal.writer import JournalWriter

RECOVERED = (
    "(EngineCore pid=1) WARNING Recovered from KV load failure: {} request(s) rescheduled ({} tokens affected).\n"
)


def logged(path: Path, text: str) -> EngineLog:
    path.write_text("before\n")
    log = EngineLog(path)
    with path.open("a") as file:
        file.write(text)
    log.look()
    return log


def test_a_failure_is_found_by_its_tokens_and_its_time(tmp_path: Path) -> None:
    log = logged(tmp_path / "log", RECOVERED.format(1, 512))
    at_ns = log.failures[0].seen_at_ns
    assert not log.take_failure(at_ns - 4_000_000_000, 512), "too long before it"
    assert not log.take_failure(at_ns + 1, 512), "the line was there before the load had failed"
    assert not log.take_failure(at_ns, 448), "another number of tokens"
    assert log.take_failure(at_ns - 2_000_000_000, 512)


def test_a_line_serves_one_request_only(tmp_path: Path) -> None:
    log = logged(tmp_path / "log", RECOVERED.format(1, 512))
    at_ns = log.failures[0].seen_at_ns
    assert log.take_failure(at_ns, 512)
    assert not log.take_failure(at_ns, 512)


def test_a_line_about_two_requests_tells_of_less_than_its_sum(tmp_path: Path) -> None:
    log = logged(tmp_path / "log", RECOVERED.format(2, 896))
    at_ns = log.failures[0].seen_at_ns
    assert log.take_failure(at_ns, 512)
    assert log.take_failure(at_ns, 384)
    assert not log.take_failure(at_ns, 896)


def test_the_failing_policy_says_it_in_other_words(tmp_path: Path) -> None:
    text = "ERROR Failing 1 request(s) due to KV load failure (failure_policy=fail, 256 tokens affected). IDs: {'a'}\n"
    log = logged(tmp_path / "log", text)
    assert [(line.requests, line.tokens) for line in log.failures] == [(1, 256)]


def test_what_stood_in_the_log_before_is_not_counted(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(RECOVERED.format(1, 512))
    log = EngineLog(path)
    log.look()
    assert log.failures == []


def test_half_a_line_is_read_once_it_is_whole(tmp_path: Path) -> None:
    line = RECOVERED.format(1, 512)
    log = logged(tmp_path / "log", line[:60])
    assert log.failures == []
    with (tmp_path / "log").open("a") as file:
        file.write(line[60:])
    log.look()
    assert [one.tokens for one in log.failures] == [512]


def test_only_events_of_its_own_arm_are_taken(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path, "probe")
    for arm in ("one", "two"):
        writer.enter(arm, 0)
        writer.write(FaultApplied, fault="hold-0", request_id=f"R.{arm}.0.1", stage="lookup", phase="began")
        writer.write(FaultApplied, fault="hold-0", request_id=f"R.{arm}.0.1", stage="lookup", phase="ended", held_s=1.0)
    watch = Watch(tmp_path, "two", 0)
    watch.look()
    watch.look()
    assert watch.struck("hold-0") == ["R.two.0.1"]


def test_the_first_lookup_of_a_request_is_kept(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path, "probe")
    writer.enter("one", 0)
    for attempt, promised in ((1, 64), (2, 0)):
        writer.write(
            KvLookup,
            request_id="r",
            attempt=attempt,
            prompt_tokens=100,
            local_tokens=0,
            promised_tokens=promised,
            tier_tokens=64,
            is_async=True,
            first_asked_at_ns=1,
            answered_at_ns=2,
        )
    watch = Watch(tmp_path, "one", 0)
    watch.look()
    assert watch.lookups["r"].promised_tokens == 64
