"""The client sent on time, so that the load was the planned one."""

from testbed.checks.verdict import Finding, passed, unknown
from testbed.metrics.analysis import Analysis
from testbed.metrics.latency import send_lag_s
from testbed.metrics.statistics import SMALLEST_N, statistic
from testbed.metrics.views import RequestView
from testbed.missing import Missing


def check(analysis: Analysis) -> Finding | None:
    """By the p99 of all sends and of each arm that has enough; below 100 sends in all, by the latest one."""
    limit_s = analysis.run.manifest.send_lag_limit_s
    parts = {"the run": analysis.views}
    parts |= {f"arm {arm.name}": analysis.in_arm(arm.name) for arm in analysis.arms}
    lags = {name: _lags(views) for name, views in parts.items()}
    if not lags["the run"]:
        return unknown("no request was sent")
    enough = SMALLEST_N["p99"]
    judged = {name: _judged(values) for name, values in lags.items() if name == "the run" or len(values) >= enough}
    told = [f"{name}: {how} {lag_s * 1000:.1f} ms of n={len(lags[name])}" for name, (how, lag_s) in judged.items()]
    late = any(lag_s > limit_s for _, lag_s in judged.values())
    if late:
        return unknown(f"the client was late: above {limit_s * 1000:.0f} ms", told)
    return passed(f"sends were at most {limit_s * 1000:.0f} ms late", told)


def _lags(views: tuple[RequestView, ...]) -> list[float]:
    lags = [send_lag_s(view.row) for view in views]
    return [lag for lag in lags if not isinstance(lag, Missing)]


def _judged(values: list[float]) -> tuple[str, float]:
    p99 = statistic(values, "p99")
    return ("the latest", max(values)) if isinstance(p99, Missing) else ("p99", p99)
