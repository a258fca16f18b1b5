"""Each position of each prompt and answer has exactly one final source, and the engine's own sums agree."""

from testbed.checks.verdict import Finding, failed, passed, times, unknown
from testbed.metrics.analysis import Analysis
from testbed.metrics.ledger import Ledger
from testbed.missing import Missing


def check(analysis: Analysis) -> Finding | None:
    """Covers fill too, for the engine's sums do. Arms without a probe have counters only, which is said."""
    probed = {arm.name for arm in analysis.arms if arm.probed}
    wrong = list(analysis.ledgers.problems)
    by_steps = by_counters = 0
    blind: list[str] = []
    for row in analysis.requests.rows:
        ledger = analysis.ledgers.by_id[row.request_id]
        if isinstance(ledger, Missing):
            if row.ok:
                blind.append(f"{row.request_id}: {ledger.reason}")
            continue
        by_steps += ledger.source == "steps"
        by_counters += ledger.source == "counters"
        wrong += [f"{row.request_id}: {problem}" for problem in problems_of(ledger, row.ok)]
    if wrong:
        return failed(f"the ledger does not add up in {times(len(wrong), 'place')}", wrong)
    if not by_steps + by_counters or (probed and not by_steps):
        return unknown("no request has a ledger")
    text = f"{by_steps} requests add up by the scheduler's steps, {by_counters} have counters only"
    return passed(text if not blind else f"{text}, {len(blind)} not even those", blind)


def problems_of(ledger: Ledger, complete: bool) -> list[str]:
    """What is wrong in one ledger; the sums are only due for a complete answer."""
    found = list(ledger.problems)
    total = ledger.local + ledger.loaded + ledger.computed
    if complete and total != ledger.prompt_tokens:
        parts = f"local {ledger.local} + loaded {ledger.loaded} + computed {ledger.computed}"
        found.append(f"{parts} = {total}, not {ledger.prompt_tokens}")
    return found
