"""After the run no process, port, shared memory or file of it was left."""

from testbed.checks.verdict import Finding, failed, passed, times, unknown
from testbed.metrics.analysis import Analysis


def check(analysis: Analysis) -> Finding | None:
    """None in the manifest means that nobody looked."""
    left = analysis.run.manifest.left_behind
    if left is None:
        return unknown("nobody looked for what was left behind")
    return failed(f"{times(len(left), 'thing')} left behind", left) if left else passed("nothing was left behind")
