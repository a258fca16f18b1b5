"""The summary table."""

import json

import pytest

from testbed.journal.events import Event, KvLoadEnded, RequestEnded
from testbed.metrics.analysis import Analysis
from testbed.metrics.table import Row, declared_metrics, summarise
from testbed.missing import Missing
from tests.synthetic import changed, demo_run, made_run, with_facts, without

DEMO = demo_run()
ROWS = summarise(DEMO)


def row(metric: str, arm: str, traffic_class: str = "all", statistic: str = "") -> Row:
    """One row of the demo's table."""
    return next(
        one for one in ROWS
        if (one.metric, one.arm, one.traffic_class) == (metric, arm, traffic_class) and statistic in ("", one.statistic)
    )


def test_every_metric_is_in_the_table_for_every_class_and_arm() -> None:
    expected = {
        (metric.name, name, arm.name)
        for metric in declared_metrics() for name in ("all", "long_doc", "short_chat") for arm in DEMO.manifest.arms
    }
    assert {(one.metric, one.traffic_class, one.arm) for one in ROWS} == expected


def test_names_of_metrics_are_unique_and_say_their_unit() -> None:
    names = [metric.name for metric in declared_metrics()]
    assert len(names) == len(set(names))
    for metric in declared_metrics():
        assert metric.meaning
        assert metric.needs
        assert metric.unit != "s" or metric.name.endswith("_s")


def test_outcomes_add_up_to_the_planned_requests() -> None:
    kinds = ("ok", "failed", "timed_out", "cancelled", "rejected", "not_sent", "interrupted")
    for arm in DEMO.manifest.arms:
        parts = [row(f"{kind}_count", arm.name).value for kind in kinds]
        total = sum(part for part in parts if not isinstance(part, Missing))
        assert total == row("planned_count", arm.name).value == 54


def test_prompt_tokens_split_into_their_sources_in_every_arm_with_a_probe() -> None:
    for arm in ("tier", "held", "evicted", "timeouts"):
        parts = [row(f"{name}_tokens", arm).value for name in ("local", "loaded", "computed")]
        assert sum(part for part in parts if not isinstance(part, Missing)) == row("prompt_tokens", arm).value


def test_an_arm_without_a_probe_has_no_value_for_what_only_steps_tell() -> None:
    found = row("recomputed_after_failure_tokens", "no_tier").value
    assert isinstance(found, Missing)
    assert "no probe" in found.reason
    assert row("local_tokens", "no_tier").n == 54


def test_a_path_without_a_nominal_rate_has_no_nominal_ratio() -> None:
    assert row("transfer_over_nominal", "tier", "long_doc").value == Missing("path memory has no nominal rate")
    # transfers of the demo take 1.4 to 1.8 times the calibrated time
    found = row("transfer_over_calibrated", "tier", "long_doc").value
    assert not isinstance(found, Missing)
    assert 1.4 <= found <= 1.8


def test_p99_of_54_requests_has_no_value() -> None:
    assert row("ttft_s", "tier", statistic="p99").value == Missing("n=54, p99 needs 100")
    assert not isinstance(row("ttft_s", "tier", statistic="p95").value, Missing)


def test_intervals_hold_their_value() -> None:
    for one in ROWS:
        if isinstance(one.value, Missing) or isinstance(one.low, Missing) or isinstance(one.high, Missing):
            continue
        assert one.low <= one.value + 1e-9
        assert one.high >= one.value - 1e-9


def test_the_table_is_the_same_each_time() -> None:
    assert summarise(made_run()) == ROWS


def test_rows_are_strict_json() -> None:
    text = json.dumps([one.as_json() for one in ROWS], allow_nan=False)
    missing = [one for one in json.loads(text) if one["value"] is None]
    assert missing
    assert all(one["reason"] for one in missing)


def test_an_arm_in_which_all_failed_has_reasons_and_no_zeros() -> None:
    def of_tier(one: Event) -> bool:
        return isinstance(one, RequestEnded) and one.arm == "tier"

    rows = summarise(changed(DEMO, of_tier, outcome="failed"))
    ttft = [one for one in rows if one.metric == "ttft_s" and one.arm == "tier"]
    assert all(isinstance(one.value, Missing) for one in ttft)
    assert next(one.value for one in rows if one.metric == "goodput_ratio" and one.arm == "tier") == 0.0


def test_a_metric_of_loads_names_the_reason_of_a_connector_that_hides_its_times() -> None:
    hidden = changed(DEMO, lambda one: isinstance(one, KvLoadEnded), transfer_s=None)
    rows = summarise(with_facts(hidden, seed=1))
    key = ("transfer_s", "long_doc", "tier")
    found = next(one.value for one in rows if (one.metric, one.traffic_class, one.arm) == key)
    assert found == Missing("the connector does not show it")


def test_a_run_without_any_end_still_has_a_table() -> None:
    rows = summarise(without(DEMO, lambda one: isinstance(one, RequestEnded)))
    assert len(rows) == len(ROWS)
    assert next(one.value for one in rows if one.metric == "interrupted_count") == 54


@pytest.mark.parametrize("arm", ["tier", "held"])
def test_windows_run_from_the_first_due_to_the_last_end(arm: str) -> None:
    analysis = Analysis(DEMO)
    ends = [view.row.ended for view in analysis.in_arm(arm)]
    due = min(one.scheduled_at_ns for one in ends if one is not None)
    last = max(one.ended_at_ns for one in ends if one is not None)
    assert analysis.windows_s[arm] == pytest.approx((last - due) / 1e9)
