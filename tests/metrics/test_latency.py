"""Times of one request, by hand."""

from typing import Any

import pytest

from testbed.journal.events import RequestEnded, RequestPlanned, RequestSent
from testbed.metrics.latency import e2e_s, itl_s, send_lag_s, tpot_s, ttft_s, ttft_sent_s
from testbed.metrics.requests import RequestRow
from testbed.missing import Missing
from tests.synthetic import event

MS = 1_000_000


def row(**ended: Any) -> RequestRow:
    """A request due at 1000 ms and sent at 1030 ms, with tokens at 1130, 1330 (two of them) and 1430 ms."""
    facts: dict[str, Any] = {
        "request_id": "R.tier.0.1", "outcome": "ok", "reason": "", "scheduled_at_ns": 1000 * MS,
        "sent_at_ns": 1030 * MS, "first_byte_at_ns": 1120 * MS, "first_token_at_ns": 1130 * MS,
        "last_token_at_ns": 1430 * MS,
        "chunk_at_ns": [1130 * MS, 1330 * MS, 1430 * MS], "chunk_tokens": [1, 2, 1], "usage_output_tokens": 4,
        "ended_at_ns": 1435 * MS,
    }
    planned = event(
        RequestPlanned, 0.0, request_id="R.tier.0.1", index=1, traffic_class="c", scheduled_at_s=1.0, prompt_tokens=9,
        max_tokens=4, stop="natural", timeout_s=9.0, prompt_key="k", measured=True,
    )
    return RequestRow(planned, None, event(RequestEnded, 1.5, **{**facts, **ended}), 1, True)


def test_ttft_counts_from_the_scheduled_time() -> None:
    # 1130 - 1000
    assert ttft_s(row()) == pytest.approx(0.130)


def test_ttft_sent_counts_from_the_first_byte_out() -> None:
    # 1130 - 1030
    assert ttft_sent_s(row()) == pytest.approx(0.100)


def test_tpot_divides_by_the_tokens_after_the_first() -> None:
    # (1430 - 1130) / (4 - 1) = 100 ms
    assert tpot_s(row()) == pytest.approx(0.100)


def test_tpot_goes_by_the_servers_usage_not_by_chunks() -> None:
    # 17 tokens in 9 chunks over 1600 ms: 1600 / 16 = 100 ms, where 9 chunks would give 200 ms
    found = row(first_token_at_ns=100 * MS, last_token_at_ns=1700 * MS, usage_output_tokens=17, chunk_tokens=[1] * 9)
    assert tpot_s(found) == pytest.approx(0.100)


def test_tpot_of_one_token_has_no_value() -> None:
    found = tpot_s(row(usage_output_tokens=1))
    assert isinstance(found, Missing)
    assert "two" in found.reason


def test_itl_has_a_gap_for_each_token_after_the_first() -> None:
    # 1130 -> 1330, then 0 for the second of its chunk, then 1330 -> 1430
    assert itl_s(row()) == pytest.approx((0.2, 0.0, 0.1))


def test_e2e_ends_with_the_last_token() -> None:
    # 1430 - 1000
    assert e2e_s(row()) == pytest.approx(0.430)


def test_send_lag_is_sent_minus_scheduled() -> None:
    # 1030 - 1000
    assert send_lag_s(row()) == pytest.approx(0.030)


def test_a_failed_request_has_a_send_lag_and_no_latency() -> None:
    failed = row(outcome="failed", reason="failed/error_in_stream")
    assert all(isinstance(compute(failed), Missing) for compute in (ttft_s, ttft_sent_s, tpot_s, itl_s, e2e_s))
    assert send_lag_s(failed) == pytest.approx(0.030)


def test_a_request_that_was_never_sent_has_no_send_lag() -> None:
    assert isinstance(send_lag_s(row(outcome="not_sent", sent_at_ns=None)), Missing)


def test_the_event_of_sending_is_enough_for_the_send_lag() -> None:
    sent = event(RequestSent, 1.03, request_id="R.tier.0.1", scheduled_at_ns=1000 * MS, sent_at_ns=1045 * MS)
    waiting = RequestRow(row().planned, sent, None, 0, True)
    assert send_lag_s(waiting) == pytest.approx(0.045)
    assert isinstance(ttft_s(waiting), Missing)
