"""Metrics of the ledger: where the prompt tokens of each request came from, and what was computed again."""

from collections.abc import Callable

from testbed.metrics.declaration import RequestMetric
from testbed.metrics.ledger import Ledger
from testbed.metrics.views import RequestView
from testbed.missing import Missing

_STEPS = ("kv_lookup", "kv_load_ended", "step_scheduled")
_ENDED = ("request_ended",)


def _both(pick: Callable[[Ledger], int]) -> Callable[[RequestView], float | Missing]:
    """A number that counters tell too."""
    def compute(view: RequestView) -> float | Missing:
        return view.ledger if isinstance(view.ledger, Missing) else float(pick(view.ledger))
    return compute


def _steps(pick: Callable[[Ledger], int]) -> Callable[[RequestView], float | Missing]:
    """A number that only the scheduler's steps tell."""
    def compute(view: RequestView) -> float | Missing:
        if isinstance(view.ledger, Missing):
            return view.ledger
        if view.ledger.source == "counters":
            return Missing("no probe in this arm: its counters do not tell")
        return float(pick(view.ledger))
    return compute


def _metric(
    name: str, meaning: str, compute: Callable[[RequestView], float | Missing], needs: tuple[str, ...],
) -> RequestMetric:
    costs = name.startswith(("computed", "recomputed", "lost"))
    return RequestMetric(
        name=name, unit="tokens", better="lower" if costs else "neither", needs=needs, statistics=("total",),
        meaning=meaning, compute=compute,
    )


RECOMPUTE_METRICS = (
    _metric("prompt_tokens", "prompt tokens of requests with a ledger", _both(lambda one: one.prompt_tokens), _ENDED),
    _metric("local_tokens", "prompt tokens that the engine held itself", _both(lambda one: one.local), _ENDED),
    _metric("loaded_tokens", "prompt tokens that came from the tier", _steps(lambda one: one.loaded), _STEPS),
    _metric("computed_tokens", "prompt tokens that the engine computed", _both(lambda one: one.computed), _ENDED),
    _metric("promised_tokens", "tokens that the tier promised", _steps(lambda one: one.promised), _STEPS),
    _metric("lost_tokens", "promised tokens whose load failed", _steps(lambda one: one.lost), _STEPS),
    _metric(
        "recomputed_after_failure_tokens", "tokens that the engine computed because a load failed",
        _steps(lambda one: one.recomputed_after_failure), _STEPS,
    ),
    _metric(
        "recomputed_after_preemption_tokens", "tokens computed again after a preemption",
        _steps(lambda one: one.recomputed_after_preemption), _STEPS,
    ),
    _metric(
        "recomputed_last_tokens", "last tokens of full hits, computed all the same",
        _steps(lambda one: one.recomputed_last_token), _STEPS,
    ),
)
