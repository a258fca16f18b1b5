"""Before each arm the engine and the tier were empty: one canary hit, then the same canary missed."""

from testbed.checks.verdict import Finding, passed, unknown
from testbed.journal.events import ArmBegan, TierReset
from testbed.metrics.analysis import Analysis
from testbed.metrics.pairs import NO_TIER


def check(analysis: Analysis) -> Finding | None:
    """The numbers are judged here again; the word `proven` alone proves nothing."""
    tiers = {arm.name: arm.tier for arm in analysis.arms}
    resets = {(event.arm, event.repetition): event for event in analysis.run.journal.select(TierReset)}
    began = {(event.arm, event.repetition) for event in analysis.run.journal.select(ArmBegan)}
    expected = sorted(began | {(name, 0) for name in tiers})
    wrong = []
    for arm, repetition in expected:
        reset = resets.get((arm, repetition))
        where = f"arm {arm}, repetition {repetition}"
        if reset is None:
            wrong.append(f"{where}: no reset")
        elif problem := _problem(reset, tiers.get(arm, NO_TIER)):
            wrong.append(f"{where}: {problem}")
    if wrong:
        return unknown("an arm did not start from a proven reset", wrong)
    return passed(f"{len(expected)} arms each started from a proven reset")


def _problem(reset: TierReset, tier: str) -> str:
    if not reset.proven:
        return f"not proven: {reset.detail}"
    if reset.saves_in_flight:
        return f"{reset.saves_in_flight} saves were in flight"
    if tier != NO_TIER and reset.after_promised_tokens is None:
        return "the tier was not asked"
    if reset.after_local_tokens or reset.after_promised_tokens:
        return f"the canary still hit: local {reset.after_local_tokens}, promised {reset.after_promised_tokens}"
    if not reset.before_local_tokens and not reset.before_promised_tokens:
        return "the canary had not hit before, so its miss shows nothing"
    return ""
