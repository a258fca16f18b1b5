"""The same planned requests in two arms: what a tier bought, and what a fault cost."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from testbed.journal.manifest import ArmFacts, FaultFacts
from testbed.metrics.analysis import Analysis
from testbed.metrics.declaration import RequestMetric
from testbed.metrics.latency import LATENCY_METRICS
from testbed.metrics.no_load import without_load
from testbed.metrics.statistics import Ratio, paired_ratio, seed_of, statistic
from testbed.metrics.table import declared_metrics
from testbed.missing import Missing

TTFT = next(metric for metric in LATENCY_METRICS if metric.name == "ttft_s")
NO_TIER = "none"
SHARED = ("tier", "policy", "attempts", "load_deadline_s", "settings")
"""What an arm must have in common with its control, so that they differ by the fault alone."""


@dataclass(frozen=True)
class TierGain:
    """TTFT of an arm with a tier and no faults over the arm without a tier; below 1 the tier was faster."""

    arm: str
    over: str
    traffic_class: str
    ratio: Ratio | Missing


@dataclass(frozen=True)
class FaultCost:
    """What one fault cost the requests that it struck, beside the same planned requests in the control arm.

    Those that came to no load at all are left out: theirs is the cost of a miss. Where the control strikes requests
    too, only those count that were struck in both; else `struck_in_both` is None.
    """

    arm: str
    fault: str
    control: str | None
    struck: int
    struck_in_both: int | None
    struck_ttft_s: float | Missing
    control_ttft_s: float | Missing
    ratio: Ratio | Missing
    recomputed_tokens: int | Missing


def find_metric(name: str) -> RequestMetric | Missing:
    """The metric of this name that has a value for each request."""
    found = next((metric for metric in declared_metrics() if metric.name == name), None)
    if isinstance(found, RequestMetric):
        return found
    return Missing(f"{name} is not a metric with a value for each request")


def pairs(
    analysis: Analysis, metric: RequestMetric, arm: str, over: str, traffic_class: str = "all",
    only: Collection[str] | None = None,
) -> list[tuple[float, float]]:
    """(value in `arm`, value in `over`) of each planned request with one in both; `only` limits the ids of `arm`."""
    below = {view.row.pair_key: metric.compute(view) for view in analysis.in_arm(over, traffic_class)}
    found: list[tuple[float, float]] = []
    for view in analysis.in_arm(arm, traffic_class):
        if only is not None and view.row.request_id not in only:
            continue
        first, second = metric.compute(view), below.get(view.row.pair_key)
        if isinstance(first, float) and isinstance(second, float):
            found.append((first, second))
    return found


def tier_gains(analysis: Analysis) -> list[TierGain]:
    """Each arm with a tier and without faults over the arm without a tier, by traffic class."""
    bare = next((arm for arm in analysis.arms if arm.tier == NO_TIER), None)
    if bare is None:
        return []
    return [
        TierGain(arm.name, bare.name, name, _ratio(analysis, found, arm.name, name))
        for arm in analysis.arms if arm.tier != NO_TIER and not arm.faults
        for name in analysis.classes
        for found in [pairs(analysis, TTFT, arm.name, bare.name, name)]
    ]


def _ratio(analysis: Analysis, found: list[tuple[float, float]], *names: str) -> Ratio | Missing:
    return paired_ratio(found, seed_of(analysis.run.manifest.seed, "paired", *names))


def control_of(analysis: Analysis, arm: ArmFacts) -> str | None:
    """The arm that differs by the fault alone: the declared one, else the first that shares all and has no faults."""
    if arm.control is not None:
        return arm.control
    return next((one.name for one in analysis.arms if not one.faults and not differences(arm, one)), None)


def differences(arm: ArmFacts, control: ArmFacts) -> list[str]:
    """In what a control differs from its arm beside the faults, which it must not."""
    values = [(name, getattr(control, name), getattr(arm, name)) for name in SHARED]
    return [f"its {name} is {its!r}, the arm's is {mine!r}" for name, its, mine in values if its != mine]


def struck_keys(analysis: Analysis, arm: str, faults: Iterable[str]) -> set[tuple[int, int]]:
    """The pair keys of measured requests of an arm that some of its faults struck."""
    struck = {event.request_id for fault in faults for event in analysis.applied.get((arm, fault), ())}
    return {analysis.views_by_id[one].row.pair_key for one in struck if one in analysis.views_by_id}


def fault_costs(analysis: Analysis) -> list[FaultCost]:
    """The cost of each fault of each arm, in the order of the manifest."""
    return [_cost(analysis, arm, fault) for arm in analysis.arms for fault in arm.faults]


def _cost(analysis: Analysis, arm: ArmFacts, fault: FaultFacts) -> FaultCost:
    applied = analysis.applied.get((arm.name, fault.fault), ())
    missed = without_load(analysis.run, applied) if fault.fails_loads else {}
    hit = [event.request_id for event in applied if event.request_id not in missed]
    struck = [one for one in hit if one in analysis.views_by_id]
    control = control_of(analysis, arm)
    both = _struck_in_both(analysis, struck, control)
    compared = struck if both is None else both
    found = [] if control is None else pairs(analysis, TTFT, arm.name, control, only=set(compared))
    no_pair = Missing(
        "no arm to compare with" if control is None
        else "no request was struck in both arms" if not compared and struck
        else "no struck request has an answer in both arms"
    )
    return FaultCost(
        arm=arm.name, fault=fault.fault, control=control, struck=len(struck),
        struck_in_both=None if both is None else len(both),
        struck_ttft_s=statistic([one for one, _ in found], "p50") if found else no_pair,
        control_ttft_s=statistic([one for _, one in found], "p50") if found else no_pair,
        ratio=_ratio(analysis, found, arm.name, fault.fault) if found else no_pair,
        recomputed_tokens=_recomputed(analysis, struck),
    )


def _struck_in_both(analysis: Analysis, struck: list[str], control: str | None) -> list[str] | None:
    """Those of the struck requests that the control's own faults struck too; None if the control has none."""
    facts = None if control is None else analysis.arm(control)
    if facts is None or not facts.faults:
        return None
    there = struck_keys(analysis, facts.name, [fault.fault for fault in facts.faults])
    return [one for one in struck if analysis.views_by_id[one].row.pair_key in there]


def _recomputed(analysis: Analysis, struck: list[str]) -> int | Missing:
    if not struck:
        return Missing("no measured request was struck")
    ledgers = [analysis.views_by_id[one].ledger for one in struck]
    found = [one.recomputed_after_failure for one in ledgers if not isinstance(one, Missing) and one.source == "steps"]
    return sum(found) if found else Missing("no ledger tells")
