"""No load moved its bytes faster than its path can."""

from testbed.checks.verdict import Finding, failed, passed, times, unknown
from testbed.metrics.analysis import Analysis
from testbed.metrics.loads import Load
from testbed.missing import Missing


def check(analysis: Analysis) -> Finding | None:
    """Below the nominal bound, or below the calibrated one by more than its spread: a number is wrong."""
    loads = [load for load in analysis.loads if load.ok]
    if not loads:
        return None
    wrong = [problem for load in loads if (problem := _too_fast(load))]
    if wrong:
        return failed(f"{len(wrong)} of {times(len(loads), 'load')} were faster than possible", wrong)
    blind = sorted({reason for load in loads if (reason := _unbounded(load))})
    bounded = [load for load in loads if not _unbounded(load)]
    if not bounded:
        return unknown("no load could be held against a bound", blind)
    least = min(ratio for load in bounded for ratio in [load.over_calibrated] if not isinstance(ratio, Missing))
    text = f"{len(bounded)} of {times(len(loads), 'load')} took at least {least:.2f} times their calibrated bound"
    return passed(text, blind)


def _too_fast(load: Load) -> str:
    if not isinstance(load.over_nominal, Missing) and load.over_nominal < 1:
        share = f"{load.over_nominal:.3f} of the nominal time of {load.path}"
        return f"{load.request_id}: {load.load_bytes} bytes in {share}"
    spread = None if load.rate is None else load.rate.spread_ratio
    if isinstance(load.over_calibrated, Missing) or load.over_calibrated >= 1 - (0.0 if spread is None else spread):
        return ""
    times_bound = f"{load.over_calibrated:.3f} of the calibrated time of {load.path}"
    return f"{load.request_id}: {load.load_bytes} bytes in {times_bound}, whose spread is {spread}"


def _unbounded(load: Load) -> str:
    return load.over_calibrated.reason if isinstance(load.over_calibrated, Missing) else ""
