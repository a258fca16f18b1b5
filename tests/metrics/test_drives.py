"""The client by hand: rates, the shape of the arrivals, and what it says of itself."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.journal.events import RequestEnded, RequestPlanned, RequestSent
from testbed.metrics import drives
from testbed.metrics.analysis import Analysis
from testbed.metrics.declaration import Estimate
from testbed.metrics.drives import Drive
from testbed.metrics.fidelity import FIDELITY_METRICS
from testbed.metrics.table import summarise
from testbed.metrics.throughput import sent_rps
from testbed.missing import Missing
from tests.loads import load_run
from tests.synthetic import added, demo_run

TEN = [0.1 * k for k in range(10)]


def drive(due_s: list[float], sent_s: list[float | None], **client: object) -> Drive:
    """The only drive of a made-up run; with `client` facts, one in which the client speaks of itself."""
    return Analysis(load_run(due_s, sent_s, client=client or None)).drives[0]


def lagging(lag_s: float) -> list[float | None]:
    """Each of the ten is as late as that."""
    return [at_s + lag_s for at_s in TEN]


def test_a_client_on_time_sends_at_the_rate_that_is_offered() -> None:
    one = drive(TEN, lagging(0.0))
    # 9 gaps in 0.9 s
    assert drives.offered_rps([one]) == pytest.approx(10.0)
    assert drives.sent_rps([one]) == pytest.approx(10.0)
    assert drives.reached_ratio(one, 0.0) == pytest.approx(1.0)


def test_a_client_that_can_send_362_a_second_is_not_said_to_have_been_offered_less() -> None:
    # 5,000/s are asked for 2 s; the last of 10,000 goes out at 9,999 / 362 = 27.6 s
    one = drive([k / 5000 for k in range(10_000)], [k / 362 for k in range(10_000)])
    assert drives.offered_rps([one]) == pytest.approx(5000)
    assert drives.sent_rps([one]) == pytest.approx(362)
    # with 50 ms of grace: 9,999 / 27.571 = 362.7; ÷ 5,000 = 0.0725
    assert drives.reached_ratio(one, 0.05) == pytest.approx(0.0725, abs=1e-4)


def test_a_lag_within_its_limit_is_no_loss_of_rate_however_short_the_schedule() -> None:
    # the last is sent at 0.94 s: 9 / 0.94 = 9.57/s, which is 0.957 of 10; 50 ms of grace make it 0.9 s again
    one = drive(TEN, lagging(0.04))
    assert drives.reached_ratio(one, 0.0) == pytest.approx(0.957, abs=1e-3)
    assert drives.reached_ratio(one, 0.05) == pytest.approx(1.0)


def test_what_was_never_sent_is_missing_from_the_rate() -> None:
    # 8 of 10 are sent: (8 - 1) / 0.9 s
    one = drive(TEN, [*TEN[:8], None, None])
    assert drives.sent_rps([one]) == pytest.approx(7 / 0.9)
    assert drives.sent_rps([drive(TEN, [None] * 10)]) == 0.0


def test_rates_of_repetitions_are_pooled() -> None:
    # 9 gaps in 0.9 s and 9 in 1.8 s: 18 / 2.7
    slow = drive([2 * at_s for at_s in TEN], [2 * at_s for at_s in TEN])
    assert drives.offered_rps([drive(TEN, lagging(0.0)), slow]) == pytest.approx(18 / 2.7)


def test_one_moment_is_no_rate_and_a_closed_loop_is_offered_none() -> None:
    assert drives.offered_rps([drive([1.0, 1.0], [1.0, 1.0])]) == drives.TOO_FEW
    assert drives.offered_rps([]) == drives.TOO_FEW
    closed = drive(TEN, lagging(0.0), max_concurrency=4)
    assert drives.offered_rps([closed]) == drives.CLOSED
    assert drives.reached_ratio(closed, 0.0) == drives.CLOSED
    assert drives.sent_rps([closed]) == pytest.approx(10.0)


def test_the_distance_of_arrivals_is_the_largest_share_that_was_due_and_not_sent() -> None:
    # a stop from 0.25 s to 0.62 s: at 0.6 s four more of ten are due (0.3, 0.4, 0.5, 0.6) and none of them is sent
    sent: list[float | None] = [0.0, 0.1, 0.2, 0.62, 0.62, 0.62, 0.62, 0.7, 0.8, 0.9]
    assert drives.arrival_distance(drive(TEN, sent)) == pytest.approx(0.4)
    # what is at most 0.25 s late is forgiven: 0.3 is sent 0.32 s late, so at 0.3 + 0.25 it alone is behind
    assert drives.arrival_distance(drive(TEN, sent), 0.25) == pytest.approx(0.1)


def test_sends_that_stop_halfway_bend_the_arrivals_though_each_was_on_time() -> None:
    # after 5 of 10 all that were sent are sent, and half of the schedule has come
    assert drives.arrival_distance(drive(TEN, [*TEN[:5], *[None] * 5])) == pytest.approx(0.5)
    assert isinstance(drives.arrival_distance(drive(TEN, [None] * 10)), Missing)


def test_a_burst_that_takes_some_ms_to_send_is_not_bent_within_the_grace() -> None:
    # 200 at once, sent over 20 ms: at that moment nearly all are behind, and none by more than 50 ms
    burst = drive([1.0] * 200, [1.0 + 0.0001 * (k + 1) for k in range(200)])
    assert drives.arrival_distance(burst) == pytest.approx(1.0)
    assert drives.arrival_distance(burst, 0.05) == 0.0


moments = st.lists(st.floats(0, 100), min_size=2, max_size=40)


@settings(max_examples=50)
@given(moments, st.floats(0, 5), st.data())
def test_a_distance_is_a_share_and_more_grace_makes_it_no_larger(
    due: list[float], grace_s: float, data: st.DataObject,
) -> None:
    lags = data.draw(st.lists(st.floats(0, 10), min_size=len(due), max_size=len(due)))
    one = drive(due, [at_s + lag for at_s, lag in zip(due, lags, strict=True)])
    plain, graced = drives.arrival_distance(one), drives.arrival_distance(one, grace_s)
    assert not isinstance(plain, Missing)
    assert not isinstance(graced, Missing)
    assert 0.0 <= graced <= plain <= 1.0 + 1e-9
    if max(lags) < grace_s - 1e-6:  # moments are whole nanoseconds
        assert graced == 0.0


@settings(max_examples=50)
@given(moments, st.floats(0, 10))
def test_no_client_sends_faster_than_it_is_asked(due: list[float], lag_s: float) -> None:
    one = drive(due, [at_s + lag_s for at_s in due])
    offered, sent = drives.offered_rps([one]), drives.sent_rps([one])
    assert isinstance(offered, Missing) or (not isinstance(sent, Missing) and sent <= offered * (1 + 1e-9))


def test_the_busiest_second_is_where_most_were_due() -> None:
    # 0.5, 0.6, 1.4 and 1.49 lie within one second; 1.5 lies a whole second after 0.5, and is of the next
    assert drives.busiest_rps(drive([0.0, 0.5, 0.6, 1.4, 1.49, 1.5, 3.0], [None] * 7)) == 4.0
    assert drives.busiest_rps(drive([0.5, 1.5], [None] * 2)) == 1.0


def test_the_clients_share_of_its_processors_is_told_by_process() -> None:
    # from zero to a second after the last due at 0.9 s: 1.9 s; 3.04 s of CPU in 2 processes: 0.8 of each
    busy = drive(TEN, lagging(0.0), client_cpu_s=3.04, workers=2, loop_stall_count=19, loop_stall_max_s=0.3)
    assert drives.cpu_ratio(busy) == pytest.approx(0.8)
    assert drives.stalls_per_s(busy) == pytest.approx(5.0)
    assert drives.stall_max_s(busy) == 0.3


def test_a_journal_in_which_the_client_is_silent_has_no_value_for_it() -> None:
    one = drive(TEN, lagging(0.0))
    assert [drives.cpu_ratio(one), drives.stalls_per_s(one), drives.stall_max_s(one)] == [drives.SILENT] * 3


def test_the_client_is_told_for_all_classes_together() -> None:
    analysis = Analysis(demo_run())
    cpu = next(metric for metric in FIDELITY_METRICS if metric.name == "client_cpu_ratio")
    arm = analysis.arms[1]
    found = cpu.compute(analysis.arm_view(arm))
    # 3.98 s of CPU in 99.5 s
    assert isinstance(found, Estimate)
    assert found.value == pytest.approx(0.04)
    assert isinstance(cpu.compute(analysis.arm_view(arm, "long_doc")), Missing)
    of_class = sent_rps(analysis.arm_view(arm, "long_doc"))
    assert isinstance(of_class, Estimate)
    assert of_class.n == 28


def test_an_arm_is_as_far_off_as_its_worst_repetition() -> None:
    # lags of 0.15 s: at 0.9 s the sends of 0.8 and 0.9 s are still to come; in the other repetition none is
    first, second = load_run(TEN, lagging(0.15)), load_run(TEN, lagging(0.0))
    later = [
        msgspec.structs.replace(one, repetition=1, request_id=f"{one.request_id}x")
        for one in second.journal.events if isinstance(one, RequestPlanned | RequestSent | RequestEnded)
    ]
    rows = summarise(added(first, *later))
    assert next(row.value for row in rows if row.metric == "arrival_distance") == pytest.approx(0.2)
    assert next(row.value for row in rows if row.metric == "send_lag_max_s") == pytest.approx(0.15)
