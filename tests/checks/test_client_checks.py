"""Checks of the client and of what it was asked for: each over a journal that violates it."""

from typing import Any

import msgspec
import pytest

from testbed.journal.events import DriveEnded, RequestEnded, RequestPlanned, StepScheduled
from testbed.journal.manifest import ArrivalFacts
from testbed.journal.run import Run
from testbed.metrics.analysis import Analysis
from testbed.metrics.throughput import output_tokens_per_s
from testbed.missing import Missing
from tests.checks.conftest import Judge, status
from tests.demo_facts import calibration
from tests.loads import ARM, load_run, request_id
from tests.synthetic import RUN, added, arms, changed, demo_run, event, first, with_facts, without

DEMO = demo_run()
HUNDRED = [k / 10 for k in range(100)]


def steady(**parts: Any) -> Run:
    """Ten requests a second for ten seconds, all on time."""
    return load_run(HUNDRED, HUNDRED, client={}, **parts)


def client_says(**fields: object) -> Run:
    """A steady run whose client says this of itself."""
    return load_run(HUNDRED, HUNDRED, client=fields)


def test_a_rate_that_was_not_reached_is_unknown_with_all_three_rates_and_the_delay(judge: Judge) -> None:
    # 500/s asked for 2 s, 100/s sent: the last of 1,000 goes out after 9.99 s, 7.992 s after it was due; half of them
    # are late by 4 ms x 499.5 = 3.996 s or more
    run = load_run([k / 500 for k in range(1000)], [k / 100 for k in range(1000)])
    found, evidence = status(judge, "rate_reached", run)
    assert found == "UNKNOWN"
    # the last answer comes 20 ms after the last send: 1,000 / 10.01 = 99.9
    assert evidence == (
        "arm load, repetition 0: asked 500/s, sent 100/s, finished 99.9/s; "
        "send lag p50 3996.0 ms, p99 7912.1 ms, longest 7992.0 ms"
    )


@pytest.mark.parametrize(("lost", "expected"), [(2, "PASS"), (3, "UNKNOWN")])
def test_two_of_a_hundred_may_be_missing_from_the_rate(judge: Judge, lost: int, expected: str) -> None:
    # (98 - 1) / 99 = 0.9798 is below 0.98 already for 2 of 100; of 150 it is (148 - 1) / 149 = 0.987, and 0.9799 for 3
    due = [k / 10 for k in range(150)]
    sent: list[float | None] = [*due[:-1 - lost], *[None] * lost, due[-1]]
    assert status(judge, "rate_reached", load_run(due, sent))[0] == expected


def test_lags_within_their_limit_do_not_cost_the_rate(judge: Judge) -> None:
    # 20 requests in 0.19 s, the last 40 ms late: 0.83 of the rate by the clock, and nothing that the limit forbids
    due = [k / 100 for k in range(20)]
    assert status(judge, "rate_reached", load_run(due, [at_s + 0.04 for at_s in due]))[0] == "PASS"


def test_a_closed_loop_has_no_rate_to_reach(judge: Judge) -> None:
    assert judge("rate_reached", client_says(max_concurrency=4)) is None


def test_sends_that_lag_behind_their_schedule_bend_the_arrivals(judge: Judge) -> None:
    # a stop until 3.95 s: at 3.8 s those of 3.1 to 3.8 s are behind, 8 of 100; that of 3.9 s is 50 ms late
    sent: list[float | None] = [3.95 if 3.05 < at_s < 3.95 else at_s for at_s in HUNDRED]
    found, evidence = status(judge, "arrivals_as_intended", load_run(HUNDRED, sent))
    assert found == "UNKNOWN"
    assert "arm load, repetition 0: the sends were behind the schedule by 0.080 of it, 0.05 is allowed" in evidence


def test_a_burst_within_the_lag_limit_bends_nothing(judge: Judge) -> None:
    due = [1.0] * 200
    found, evidence = status(judge, "arrivals_as_intended", load_run(due, [1.0 + k / 10_000 for k in range(200)]))
    assert (found, "distance of sent from due 0.995" in evidence) == ("PASS", True)


@pytest.mark.parametrize(("distance", "expected"), [(0.29, "PASS"), (0.31, "UNKNOWN")])
def test_a_plan_far_from_its_process_is_unknown(judge: Judge, distance: float, expected: str) -> None:
    # 1.5 x 0.2 = 0.3 is allowed
    facts = ArrivalFacts(process="poisson", arrivals=46, distance=distance, limit=0.2)
    found, evidence = status(judge, "arrivals_as_intended", steady(facts={"arrivals": {"chat": facts}}))
    assert found == expected
    assert f"chat: 46 planned arrivals lie {distance:.3f} from poisson" in evidence


def test_a_closed_loop_says_why_its_plan_has_no_distance(judge: Judge) -> None:
    facts = ArrivalFacts(process="closed", arrivals=46, reason="a closed loop has no intended arrivals")
    found, evidence = status(judge, "arrivals_as_intended", steady(facts={"arrivals": {"all": facts}}))
    assert found == "PASS"
    assert "all: closed: no value: a closed loop has no intended arrivals" in evidence


# the drive takes 10.9 s, from zero to a second after the last due
@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"client_cpu_s": 9.9}, "0.908 of its time on a processor, 0.9 is allowed"),
        ({"loop_stall_max_s": 1.2}, "1.2 s for which its loop stood still, 1 is allowed"),
        ({"loop_stall_count": 230}, "21.1 stalls a second, 20 is allowed"),
    ],
)
def test_a_client_without_room_is_unknown(judge: Judge, fields: dict[str, object], told: str) -> None:
    found, evidence = status(judge, "client_had_room", client_says(**fields))
    assert found == "UNKNOWN"
    assert evidence == f"arm load, repetition 0: {told}"


@pytest.mark.parametrize(
    "fields",
    [{"client_cpu_s": 9.7}, {"client_cpu_s": 19.0, "workers": 2}, {"loop_stall_max_s": 0.9}, {"loop_stall_count": 217}],
)
def test_a_client_with_room_passes(judge: Judge, fields: dict[str, object]) -> None:
    found = judge("client_had_room", client_says(**fields))
    assert found is not None
    assert found.status == "PASS"
    assert "calibrated up to 900 requests/s" in found.text


@pytest.mark.parametrize(("max_rps", "expected"), [(10.0, "PASS"), (9.9, "UNKNOWN")])
def test_a_run_above_the_calibrated_rate_is_flagged(judge: Judge, max_rps: float, expected: str) -> None:
    found, evidence = status(judge, "client_had_room", steady(facts={"client_calibration": calibration(max_rps)}))
    assert found == expected
    assert ("10 requests in one second; its error is known to stay below 1 ms only up to 9.9" in evidence) == (
        expected == "UNKNOWN"
    )


def test_a_client_that_is_not_calibrated_is_told_and_passes(judge: Judge) -> None:
    found = judge("client_had_room", steady(facts={"client_calibration": None}))
    assert found is not None
    assert (found.status, "not calibrated" in found.text) == ("PASS", True)


def test_an_earlier_journal_in_which_no_client_speaks_is_not_judged_by_it(judge: Judge) -> None:
    assert judge("client_had_room", load_run(HUNDRED, HUNDRED)) is None


def test_one_arm_without_its_clients_word_is_unknown(judge: Judge) -> None:
    silent = without(DEMO, lambda one: isinstance(one, DriveEnded) and one.arm == "held")
    found, evidence = status(judge, "client_had_room", silent)
    assert (found, evidence) == ("UNKNOWN", "arm held, repetition 0: the client said nothing of itself")


def test_a_forced_length_that_is_not_met_is_unknown_and_its_throughput_withheld(judge: Judge) -> None:
    run = steady(planned={"max_tokens": 50}, ended={"usage_output_tokens": 10})
    found, evidence = status(judge, "length_honoured", run)
    assert (found, evidence) == ("UNKNOWN", "arm load, c: 10 of 50 in 100 requests")
    withheld = output_tokens_per_s(Analysis(run).arm_view(ARM))
    assert withheld == Missing("output length not honoured in 100 of 100 requests")


@pytest.mark.parametrize(
    ("stop", "tokens", "expected"),
    [("forced", 4, "PASS"), ("forced", 5, "UNKNOWN"), ("forced", None, "UNKNOWN"), ("natural", 3, "PASS"),
     ("natural", 5, "UNKNOWN"), ("natural", None, "PASS")],
)
def test_a_natural_end_may_come_early_and_no_answer_is_longer_than_asked(
    judge: Judge, stop: str, tokens: int | None, expected: str,
) -> None:
    # 4 are asked for
    run = steady(planned={"stop": stop}, ended={"usage_output_tokens": tokens})
    assert status(judge, "length_honoured", run)[0] == expected


def test_half_of_the_requests_failing_is_not_valid_and_told_with_status_and_reason(judge: Judge) -> None:
    half = changed(
        steady(), lambda one: isinstance(one, RequestEnded) and int(one.request_id.rpartition(".")[2]) % 2 == 1,
        outcome="failed", reason="failed/http_500", http_status=500,
    )
    found = judge("enough_succeeded", half)
    assert found is not None
    assert (found.status, found.text) == ("UNKNOWN", "not valid: fewer than 90% of a class succeeded")
    assert found.evidence == ("arm load, c: 50 of 100 failed: 50 x failed/http_500 (HTTP 500)",)


@pytest.mark.parametrize(("floor", "expected"), [(0.9, "PASS"), (0.91, "UNKNOWN")])
def test_the_floor_of_success_is_a_fact_of_the_run(judge: Judge, floor: float, expected: str) -> None:
    # 90 of 100
    ten = {request_id(k) for k in range(10)}
    run = changed(
        steady(facts={"success_floor_ratio": floor}),
        lambda one: isinstance(one, RequestEnded) and one.request_id in ten,
        outcome="timed_out", reason="timed_out/no_token",
    )
    assert status(judge, "enough_succeeded", run)[0] == expected


def test_one_class_below_the_floor_is_enough(judge: Judge) -> None:
    def is_late(one: object) -> bool:
        return isinstance(one, RequestEnded) and one.arm == "tier" and chats[one.request_id]

    chats = {
        one.request_id: one.traffic_class == "short_chat" and one.index % 4 == 0
        for one in DEMO.journal.select(RequestPlanned)
    }
    found, evidence = status(judge, "enough_succeeded", changed(DEMO, is_late, outcome="rejected", reason="rejected"))
    assert found == "UNKNOWN"
    assert evidence.startswith("arm tier, short_chat: ")


def test_users_who_left_as_planned_were_served(judge: Judge) -> None:
    went = steady(ended={"outcome": "cancelled", "reason": "cancelled/left"})
    assert status(judge, "enough_succeeded", went)[0] == "PASS"
    cut = steady(ended={"outcome": "cancelled", "reason": "cancelled/in_stream"})
    assert status(judge, "enough_succeeded", cut)[0] == "UNKNOWN"


def test_what_a_fault_was_meant_to_hurt_is_not_counted(judge: Judge) -> None:
    def is_failed(one: object) -> bool:
        return isinstance(one, RequestEnded) and one.arm == "evicted"

    run = changed(DEMO, is_failed, outcome="failed", reason="failed/http_500")
    assert status(judge, "enough_succeeded", run)[0] == "UNKNOWN"
    under_fail = [msgspec.structs.replace(arm, policy="fail") if arm.name == "evicted" else arm for arm in arms()]
    assert status(judge, "enough_succeeded", with_facts(run, arms=under_fail))[0] == "PASS"


def test_a_prefix_that_nobody_planned_fails(judge: Judge) -> None:
    # a document that is asked for the first time, and is all there
    one = first(DEMO, RequestPlanned, "tier", index=20)
    run = changed(DEMO, lambda event: event is one, hit_tokens=128)
    found, evidence = status(judge, "hits_as_planned", run)
    assert found == "FAIL"
    assert evidence.startswith(f"{RUN}.tier.0.20: found ")
    assert evidence.endswith("tokens, at most 128 were planned")


def test_fewer_hits_than_planned_pass_and_are_told(judge: Judge) -> None:
    found = judge("hits_as_planned", DEMO)
    assert found is not None
    assert found.status == "PASS"
    assert "tokens that an endless cache would find" in found.text


def test_a_plan_that_foretells_no_hits_is_not_held_against_them(judge: Judge) -> None:
    assert judge("hits_as_planned", changed(DEMO, lambda one: isinstance(one, RequestPlanned), hit_tokens=None)) is None


def test_a_request_that_the_engine_took_up_after_a_later_one_is_told_and_not_judged(judge: Judge) -> None:
    # nothing was planned for the 20th, and all of its document is found; but the engine began with the 40th before it
    planned = first(DEMO, RequestPlanned, "tier", index=20)
    alone = changed(DEMO, lambda one: one is planned, hit_tokens=0)
    assert status(judge, "hits_as_planned", alone)[0] == "FAIL"
    early = event(
        StepScheduled, planned.at_ns / 1e9 + 1, "tier", step=10**6, total_tokens=1, work=[(f"{RUN}.tier.0.40", 0, 1)],
    )
    found = judge("hits_as_planned", added(alone, early))
    assert found is not None
    assert found.status == "PASS"
    overtaken = sum(hit.overtaken for hit in Analysis(added(alone, early)).hits)
    assert found.text.startswith(f"{5 * 68 - overtaken} requests found ")
    assert found.text.endswith(f"; {overtaken} were overtaken, and are not judged")
