"""What a failed load had promised is computed afterwards, token for token."""

from testbed.checks.verdict import Finding, failed, passed, times
from testbed.metrics.analysis import Analysis
from testbed.metrics.ledger import Ledger


def check(analysis: Analysis) -> Finding | None:
    """Lost = recomputed + found in the engine's own memory by then; a request that did not end well may have less."""
    attempts = wrong = lost = 0
    evidence: list[str] = []
    for row in analysis.requests.rows:
        ledger = analysis.ledgers.by_id[row.request_id]
        if not isinstance(ledger, Ledger):
            continue
        for one in ledger.failed_loads:
            attempts += 1
            lost += one.lost_tokens
            back = one.recomputed_tokens + one.found_tokens
            if back != one.lost_tokens and (row.ok or back > one.lost_tokens):
                wrong += 1
                told = f"lost {one.lost_tokens}, recomputed {one.recomputed_tokens}, found {one.found_tokens}"
                evidence.append(f"{row.request_id}, attempt {one.number}: {told}")
    if not attempts:
        return None
    if wrong:
        return failed(f"{wrong} of {times(attempts, 'failed load')} were not recomputed as predicted", evidence)
    return passed(f"the {lost} tokens of {times(attempts, 'failed load')} were recomputed, no more and no fewer")
