"""The client's times are held against the server's, and the highest exact rate is found by trying."""

import math
from collections.abc import Callable
from typing import Any

import pytest

from testbed.calibrate.accuracy import Accuracy, RequestError, accuracy, request_error, request_errors
from testbed.calibrate.client import Setup, judge, on_cores, pinned_setup, run_trial
from testbed.calibrate.rate_search import Failed, Held, Trial, highest_rate
from testbed.drive.result import DriveResult
from testbed.errors import DeployError, RunError
from testbed.experiment.calibrating import steady_load
from testbed.journal.events import RequestEnded
from testbed.missing import Missing
from testbed.stub.asked import read_asked
from testbed.stub.log import Arrival, Ledger, Stamps, StubLog

MS = 1_000_000


def ended(name: str = "calibrate.0", **changes: Any) -> RequestEnded:
    """Sent at 10 ms; chunks at 31.5, 36 and 42 ms; ended at 43 ms."""
    facts: dict[str, Any] = {
        "at_ns": 0, "host": "h", "pid": 1, "seq": 0, "arm": "", "repetition": 0, "request_id": name, "outcome": "ok",
        "reason": "", "scheduled_at_ns": 10 * MS, "sent_at_ns": 10 * MS, "ended_at_ns": 43 * MS,
        "chunk_at_ns": [31_500_000, 36 * MS, 42 * MS],
    }
    return RequestEnded(**{**facts, **changes})


SERVER = Stamps(begun_at_ns=10 * MS, received_at_ns=10_200_000, sent_at_ns=(31 * MS, 36 * MS, 41 * MS))


def test_the_error_of_a_request_is_client_minus_server() -> None:
    found = request_error(ended(), SERVER)
    # client: 31.5 - 10 = 21.5 ms; server: 31 - 10.2 = 20.8 ms
    assert found.ttft_s == pytest.approx(0.0007)
    # chunks came 0.5, 0 and 1 ms after they were sent: the gaps are off by -0.5 and +1 ms
    assert found.late_s == pytest.approx((0.0005, 0.0, 0.001))
    assert found.itl_s == pytest.approx((-0.0005, 0.001))
    assert found.worst_s == pytest.approx(0.001)


def test_bias_and_spread_are_over_all_requests_and_all_gaps() -> None:
    errors = [RequestError(0.0002, (0.0001, 0.0004)), RequestError(-0.0004, (0.0001, 0.0002)),
              RequestError(0.0003, (0.0002, 0.0001))]
    found = accuracy(errors)
    assert (found.requests, found.chunks) == (3, 6)
    # worst of each: 0.4, 0.4, 0.3 ms
    assert (found.error_p50_s, found.error_max_s) == pytest.approx((0.0004, 0.0004))
    # TTFT: -0.4, 0.2, 0.3 ms; rank of the p99 of the sizes 0.2, 0.3, 0.4 is 1.98: 0.3 + 0.98 x 0.1
    assert (found.ttft_bias_s, found.ttft_error_p99_s) == pytest.approx((0.0002, 0.000398))
    # gaps: 0.3, 0.1, -0.1 ms; sizes 0.1, 0.1, 0.3: p99 at 1.98 is 0.1 + 0.98 x 0.2
    assert (found.itl_bias_s, found.itl_error_p99_s, found.itl_error_max_s) == pytest.approx((0.0001, 0.000296, 0.0003))


@pytest.mark.parametrize("changes", [{"chunk_at_ns": [31 * MS]}, {"sent_at_ns": None}, {"chunk_at_ns": []}])
def test_stamps_that_have_no_partner_are_not_compared(changes: dict[str, Any]) -> None:
    with pytest.raises(RunError, match=r"calibrate\.0 has \d chunks at the client, 3 were sent"):
        request_error(ended(**changes), SERVER)


def test_a_request_that_never_arrived_is_no_small_error() -> None:
    with pytest.raises(RunError, match=r"1 requests never reached the stand-in, such as calibrate\.1"):
        request_errors([ended(), ended("calibrate.1")], {"calibrate.0": SERVER})


def log_of(count: int, late_ns: int) -> StubLog:
    """Requests that were sent at 10, 20 .. ms, received 0.1 ms later, with two chunks 20 and 25 ms after that."""
    asked = read_asked("/v1/completions", b'{"prompt": [1], "max_tokens": 2, "stream": true}')
    ledger = Ledger("all")
    for index in range(count):
        received_ns = 10 * MS * (index + 1) + 100_000
        number = ledger.begin(Arrival(f"calibrate.{index}", received_ns, received_ns, b""), asked, 2)
        for chunk, after_ns in enumerate((20 * MS, 25 * MS)):
            ledger.sent(number, chunk, received_ns + after_ns - late_ns)
    return ledger.columns()


def ends_of(count: int, **changes: Any) -> list[RequestEnded]:
    """The client's side of it: each chunk as if it had been sent at its time."""
    return [
        ended(f"calibrate.{index}", sent_at_ns=10 * MS * (index + 1), ended_at_ns=10 * MS * (index + 4),
              chunk_at_ns=[10 * MS * (index + 1) + 100_000 + after_ns for after_ns in (20 * MS, 25 * MS)], **changes)
        for index in range(count)
    ]


def result(**changes: Any) -> DriveResult:
    facts: dict[str, Any] = {
        "zero_at_ns": 0, "planned": 3, "counts": {}, "send_lag_p50_s": 0.0001, "send_lag_p99_s": 0.0004,
        "send_lag_max_s": 0.0005, "loop_stall_max_s": 0.0, "loop_stall_count": 0, "peak_open": 1, "client_cpu_s": 0.03,
        "interrupted": False,
    }
    return DriveResult(**{**facts, **changes})


def test_a_drive_within_the_limits_holds_with_its_figures() -> None:
    trial = judge(100.0, result(), ends_of(3), log_of(3, late_ns=MS // 2))
    assert isinstance(trial, Held)
    # each chunk is 0.5 ms late; with the 0.1 ms until the request was received the TTFT is off by 0.6 ms
    assert trial.accuracy.ttft_bias_s == pytest.approx(0.0006)
    assert trial.accuracy.error_max_s == pytest.approx(0.0006)
    # 30 ms of CPU from the zero to the last end at 60 ms
    assert trial.client_cpu_ratio == pytest.approx(0.5)
    assert trial.lags_s == (0.0001, 0.0004, 0.0005)


@pytest.mark.parametrize(
    ("rate_rps", "changes", "outcome", "late_ns", "reason"),
    [
        (100.0, {}, "ok", 2 * MS, "the p99 of the error was 2.10 ms, above 1 ms"),
        (100.0, {}, "failed", 0, "3 of 3 requests ended with failed"),
        # sent each 10 ms, which is 100/s
        (150.0, {}, "ok", 0, "only 100/s were sent"),
        (100.0, {"send_lag_p99_s": 0.006}, "ok", 0, "send lag was 6.00 ms, above 5 ms"),
        (100.0, {"send_lag_p99_s": Missing("few")}, "ok", 0, "only 3 requests were sent"),
    ],
)
def test_a_drive_beyond_a_limit_fails_with_the_reason(
    rate_rps: float, changes: dict[str, Any], outcome: str, late_ns: int, reason: str
) -> None:
    trial = judge(rate_rps, result(**changes), ends_of(3, outcome=outcome), log_of(3, late_ns))
    assert isinstance(trial, Failed)
    assert reason in trial.reason


def test_a_trial_measures_the_client_against_a_real_stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[str] = []

    def judge_and_note(rate: float, result: DriveResult, ended: list[RequestEnded], log: StubLog) -> Trial:
        judged.extend(one.request_id for one in ended)
        return judge(rate, result, ended, log)

    monkeypatch.setattr("testbed.calibrate.client.judge", judge_and_note)
    setup = Setup(ttft_ms=5.0, itl_ms=1.0, tokens=3, seconds=0.4, least_requests=1)
    trial = run_trial(lambda rate, s: steady_load(rate, s, prompt_tokens=4, max_tokens=3), setup, 400.0)
    # 0.9 s at 400/s, less the 200 of the first half second
    assert sorted(judged) == sorted(f"calibrate.{index}" for index in range(200, 360))
    if isinstance(trial, Failed):  # a busy machine: then it is the time that failed, and it is told
        assert "ms" in trial.reason or "were sent" in trial.reason
    else:
        assert (trial.accuracy.requests, trial.accuracy.chunks) == (160, 480)
        assert trial.accuracy.ttft_bias_s > 0


def accurate(error_p99_s: float) -> Accuracy:
    return Accuracy(1, 2, error_p99_s, error_p99_s, error_p99_s, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


def up_to(limit_rps: float, tried: list[float]) -> Callable[[float], Trial]:
    def try_rate(rate_rps: float) -> Trial:
        tried.append(rate_rps)
        if rate_rps > limit_rps:
            return Failed(rate_rps, "it was late")
        return Held(rate_rps, accurate(0.0001), (0.0, 0.0, 0.0), 0.5)

    return try_rate


@pytest.mark.parametrize("limit_rps", [26, 99, 100, 700, 3000])
def test_the_rate_found_holds_and_a_tenth_more_does_not(limit_rps: float) -> None:
    tried: list[float] = []
    found = highest_rate(up_to(limit_rps, tried), lambda: False)
    assert limit_rps / 1.1 / 1.01 <= found.best.rate_rps <= limit_rps
    failed = min(rate for rate in tried if rate > limit_rps)
    assert found.ended_by == f"at {failed:g}/s it was late"


def test_the_search_ends_at_its_highest_rate() -> None:
    found = highest_rate(up_to(math.inf, []), lambda: False)
    assert (found.best.rate_rps, found.ended_by) == (12_800.0, "the highest rate that is tried is 12800/s")


def test_the_search_ends_when_its_time_is_up_with_what_it_has() -> None:
    tried: list[float] = []
    # two tries each of 100/s and 200/s
    found = highest_rate(up_to(math.inf, tried), lambda: len(tried) >= 4)
    assert (found.best.rate_rps, found.ended_by) == (200.0, "the time for the search was up")


@pytest.mark.parametrize("time_is_up", [True, False])
def test_without_any_rate_that_holds_there_is_no_record(time_is_up: bool) -> None:
    with pytest.raises(RunError, match="at no rate below the limit"):
        highest_rate(up_to(0.0, []), lambda: time_is_up)


def test_one_bad_try_of_three_is_a_disturbance_and_two_are_not() -> None:
    script = {100.0: [False, True, True], 200.0: [True, False, False]}

    def try_rate(rate_rps: float) -> Trial:
        holds = script.get(rate_rps, [False, False])
        if holds.pop(0):
            return Held(rate_rps, accurate(0.0001 * len(holds)), (0.0, 0.0, 0.0), 0.5)
        return Failed(rate_rps, "it was late")

    found = highest_rate(try_rate, lambda: False)
    assert found.best.rate_rps == 100.0
    # of the two that held, with 1 and 0 left in the script, the less exact one is kept
    assert found.best.accuracy.error_p99_s == 0.0001


def test_cores_are_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    had: set[int] = {4, 2, 7}
    set_to: list[set[int]] = []
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: had)
    monkeypatch.setattr("os.sched_setaffinity", lambda pid, cores: set_to.append(set(cores)))
    setup = pinned_setup()
    assert setup.placement == "client on core 2, stand-in on 4, 7"
    with on_cores(setup.client_cores):
        assert set_to == [{2}]
    assert set_to == [{2}, {2, 4, 7}]
    had = {3}
    with pytest.raises(DeployError, match="there is but one"):
        pinned_setup()
