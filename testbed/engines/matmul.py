"""Time a matrix product per dtype, as prefill does them. Run as `python -m testbed.engines.matmul`; prints JSON.

A module of its own because torch is imported here: the caller runs it in a child process.
"""

import json
from statistics import median

import torch

from testbed import clock

TOKENS, INNER, OUTER = 512, 576, 1536  # the up projection of a small model, over a prompt of 512 tokens
_WARM_UP, _MIN_TRIES, _BUDGET_S = 2, 5, 1.0


def time_linear(dtype: torch.dtype) -> list[float]:
    """Seconds of each try; about a second in all, but at least five tries."""
    generator = torch.Generator().manual_seed(7)
    activations = torch.randn(TOKENS, INNER, generator=generator).to(dtype)
    weight = torch.randn(OUTER, INNER, generator=generator).to(dtype)
    for _ in range(_WARM_UP):
        torch.nn.functional.linear(activations, weight)
    tries_s: list[float] = []
    while len(tries_s) < _MIN_TRIES or sum(tries_s) < _BUDGET_S:
        began_s = clock.now_s()
        torch.nn.functional.linear(activations, weight)
        tries_s.append(clock.now_s() - began_s)
    return tries_s


def main() -> None:
    """Print one record per dtype."""
    flops = 2 * TOKENS * INNER * OUTER
    records = []
    with torch.inference_mode():
        for name in ("float32", "float16", "bfloat16"):
            tries_s = time_linear(getattr(torch, name))
            middle_s = median(tries_s)
            records.append({"dtype": name, "median_s": middle_s, "gflop_per_s": flops / middle_s / 1e9,
                            "tries": len(tries_s)})
    print(json.dumps(records))


if __name__ == "__main__":
    main()
