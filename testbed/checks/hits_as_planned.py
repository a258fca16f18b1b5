"""No request found more in the caches than the plan allows: what is beyond came from another run, tenant or prompt."""

from testbed.checks.verdict import Finding, failed, passed, times
from testbed.metrics.analysis import Analysis


def check(analysis: Analysis) -> Finding | None:
    """Fewer hits are no fault, for memory ends. Does not apply where the plan or the server does not tell."""
    judged = [hit for hit in analysis.hits if not hit.overtaken]
    if not judged:
        return None
    foreign = [hit for hit in judged if hit.foreign_tokens]
    if foreign:
        lines = [
            f"{hit.row.request_id}: found {hit.found_tokens} tokens, at most {hit.allowed_tokens} were planned"
            for hit in foreign
        ]
        return failed(f"{times(len(foreign), 'request')} found prefixes that nobody had planned", lines)
    found, planned = sum(hit.found_tokens for hit in judged), sum(hit.planned_tokens for hit in judged)
    overtaken = len(analysis.hits) - len(judged)
    aside = f"; {overtaken} were overtaken, and are not judged" if overtaken else ""
    text = f"{times(len(judged), 'request')} found {found} of the {planned} tokens that an endless cache would find"
    return passed(text + aside)
