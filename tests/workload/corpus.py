"""A small corpus and plain classes for tests of plans. Each token is its own place, so a text shows its own."""

from typing import Any

from testbed.spec.workload import Workload
from testbed.workload.mixed import WorkloadPlan, plan_requests
from testbed.workload.scale import Scale

TOKENS = tuple(range(5000))


def text_class(**changes: Any) -> dict[str, Any]:
    """A class of single requests: 10 tokens in, 5 out, two a second."""
    return {
        "arrival": {"process": "poisson", "rate": 2.0}, "input": {"fixed": 10}, "output": {"fixed": 5},
        "stop": "forced", "timeout": "60s", **changes,
    }


def sharing(**changes: Any) -> dict[str, Any]:
    """The same without an arrival of its own."""
    return {key: value for key, value in text_class(**changes).items() if key != "arrival"}


def scale_of(duration_s: float = 60.0, **changes: Any) -> Scale:
    """A scale that changes nothing, with a tenth of a second for each token that is read."""
    made: dict[str, Any] = {
        "length_ratio": 1.0, "rate_ratio": 1.0, "duration_s": duration_s, "derivation": "", "decode_s_per_token": 0.1,
    }
    return Scale(**made | changes)


def planned(
    classes: dict[str, Any], *, seed: int = 7, scale: Scale | None = None, max_model_len: int = 512,
    filled: bool = False, tokens: tuple[int, ...] = TOKENS, **workload: Any,
) -> WorkloadPlan:
    """The plan of a workload of these classes, a minute long unless `workload` says something else."""
    ends = {} if "requests" in workload else {"duration": "60s"}
    spec = Workload.model_validate({"name": "w", **ends, **workload, "classes": classes})
    chosen = scale_of() if scale is None else scale
    return plan_requests(
        spec, seed=seed, scale=chosen, tokens=tokens, max_model_len=max_model_len, filled=filled
    )
