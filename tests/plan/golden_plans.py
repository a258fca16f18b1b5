"""The plans that are kept as files: written anew by `python -m tests.plan.golden_plans`, and then read by a human."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from testbed.plan.standing import Machines, Standing
from tests.plan.sites import planned, text_of

FOLDER = Path(__file__).parent.parent / "fixtures" / "plans"
ON_CPU = (
    "colocated", "colocated_replicas", "chunked_prefill", "pd", "pd_nixl", "pd_tier", "pd_multi", "colocated_mooncake",
)


def _two_nodes() -> Standing:
    split = {"gpus": 8, "tensor_parallel": 8}
    settings: dict[str, Any] = {
        f"engines__{number}__{key}": value for number in range(2) for key, value in split.items()
    }
    return planned("pd", "h100", machines=Machines(nodes=2), model="llama-3.3-70b", **settings)


GOLDEN: Mapping[str, Callable[[], Standing]] = {
    **{f"{name}_on_cpu": partial(planned, name) for name in ON_CPU},
    "colocated_on_one_rtx4090": lambda: planned("colocated", "rtx4090", model="llama-3.1-8b"),
    "pd_on_one_h100": lambda: planned("pd", "h100", machines=Machines(single=True), model="llama-3.1-8b"),
    "pd_nixl_on_eight_h100": lambda: planned(
        "pd_nixl", "h100", model="qwen3-8b", engines__0__replicas=3, engines__1__replicas=5
    ),
    "pd_on_two_nodes_of_eight_h100": _two_nodes,
}
"""By the name of the file."""


def main() -> None:
    """Write them all."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, make in GOLDEN.items():
        (FOLDER / f"{name}.txt").write_text(text_of(make()))


if __name__ == "__main__":
    main()
