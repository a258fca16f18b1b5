"""A user of locust that reads a streamed completion event by event and stamps each; loaded by locust, not by us.

Told by the environment: BENCH_REQUESTS, BENCH_TOKENS, BENCH_EACH_RPS (0: without a pause), BENCH_FIGURES. It imports
nothing of ours, since it runs in an environment of its own.
"""

import json
import os
import time
from itertools import pairwise
from typing import Any

import gevent  # type: ignore[import-untyped]
from locust import FastHttpUser, constant, constant_throughput, events, task  # type: ignore[import-not-found]
from locust.exception import StopUser  # type: ignore[import-not-found]

WANTED = int(os.environ["BENCH_REQUESTS"])
EACH_RPS = float(os.environ["BENCH_EACH_RPS"])
BODY = {
    "model": "stub", "prompt": [1, 2, 3, 4, 5, 6, 7, 8], "max_tokens": int(os.environ["BENCH_TOKENS"]), "stream": True,
    "stream_options": {"include_usage": True},
}


class Tally:
    """Requests so far, and the times of those that ended."""

    def __init__(self) -> None:
        self.begun = 0
        self.ended = 0
        self.ttft_s: list[float] = []
        self.gaps_s: list[float] = []


TALLY = Tally()


class Reader(FastHttpUser):  # type: ignore[misc]
    """Sends one completion after the other, at a steady pace or without one."""

    wait_time = constant_throughput(EACH_RPS) if EACH_RPS else constant(0)

    @task  # type: ignore[untyped-decorator]
    def complete(self) -> None:
        if TALLY.begun >= WANTED:
            raise StopUser
        TALLY.begun += 1
        began_s = time.perf_counter()
        with self.client.post("/v1/completions", json=BODY, stream=True, catch_response=True) as response:
            came_s = []
            while event := response._response.readline(b"\n\n"):
                if event.startswith(b"data: {") and b'"choices":[]' not in event:
                    came_s.append(time.perf_counter())
            response.success()
        TALLY.ttft_s.append(came_s[0] - began_s)
        TALLY.gaps_s.extend(after - before for before, after in pairwise(came_s))
        TALLY.ended += 1
        if TALLY.ended == WANTED:
            gevent.spawn(self.environment.runner.quit)  # not by the user itself, whom it would end half-way


@events.quitting.add_listener  # type: ignore[untyped-decorator]
def write(environment: Any, **_: Any) -> None:
    """Keep the percentiles."""
    with open(os.environ["BENCH_FIGURES"], "w") as file:
        json.dump([_quantile(values, q) for values in (TALLY.ttft_s, TALLY.gaps_s) for q in (0.5, 0.99)], file)


def _quantile(values: list[float], q: float) -> float:
    ordered = sorted(values)
    rank = (len(ordered) - 1) * q
    low = int(rank)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (rank - low)
