"""No load counted as good after its deadline."""

from testbed.checks.verdict import Finding, failed, passed, times
from testbed.metrics.analysis import Analysis
from testbed.missing import Missing


def check(analysis: Analysis) -> Finding | None:
    """The deadline runs from the first lookup of an attempt to the end of its load."""
    limits = {arm.name: arm.load_deadline_s for arm in analysis.arms if arm.load_deadline_s is not None}
    loads = [load for load in analysis.loads if load.ok and load.arm in limits]
    if not loads:
        return None
    wrong = []
    for load in loads:
        if isinstance(load.load_s, Missing):
            wrong.append(f"{load.request_id}, attempt {load.attempt}: {load.load_s.reason}")
        elif load.load_s > limits[load.arm]:
            after = f"{load.load_s:.3f} s after its lookup, the deadline is {limits[load.arm]:g} s"
            wrong.append(f"{load.request_id}, attempt {load.attempt}: ended well {after}")
    if wrong:
        return failed(f"{len(wrong)} of {times(len(loads), 'load')} came too late and were used", wrong)
    return passed(f"{times(len(loads), 'good load')} came within the deadline")
