"""A made-up run of one arm from the moments at which its requests were due and sent, for tests of the client."""

from collections.abc import Mapping, Sequence
from typing import Any

from testbed.journal.events import DriveEnded, Event, RequestEnded, RequestPlanned, RequestSent
from testbed.journal.manifest import ArmFacts
from testbed.journal.reader import Journal
from testbed.journal.run import Run
from tests.synthetic import RUN, event, manifest, ns

ARM = ArmFacts(name="load", tier="none", probed=False, policy="recompute", attempts=1)
ZERO_S = 100.0
ANSWER_S = 0.02


def load_run(
    due_s: Sequence[float], sent_s: Sequence[float | None], *, client: Mapping[str, Any] | None = None,
    facts: Mapping[str, Any] | None = None, planned: Mapping[str, Any] | None = None,
    ended: Mapping[str, Any] | None = None,
) -> Run:
    """Each request is answered with 4 tokens 20 ms after it was sent; one without a moment of sending was not sent.

    `client` are fields of what the client says of itself, None for a journal without it; `facts` those of the manifest.
    """
    events: list[Event] = []
    for index, (due, sent) in enumerate(zip(due_s, sent_s, strict=True)):
        sent_at_s = None if sent is None else ZERO_S + sent
        events += _request(index, ZERO_S + due, sent_at_s, dict(planned or {}), dict(ended or {}))
    if client is not None:
        events.append(event(DriveEnded, ZERO_S + 1000, "load", **{**_client(max(due_s)), **client}))
    return Run(manifest(**{"arms": [ARM], "limits": {}, "arrivals": {}, **(facts or {})}), Journal(tuple(events)), {})


def request_id(index: int) -> str:
    """The id of a request by its number."""
    return f"{RUN}.load.0.{index}"


def _client(end_s: float) -> dict[str, Any]:
    return {
        "zero_at_ns": ns(ZERO_S), "ended_at_ns": ns(ZERO_S + end_s + 1), "workers": 1, "client_cpu_s": 0.0,
        "loop_stall_max_s": 0.0, "loop_stall_count": 0, "loop_stall_limit_s": 0.005, "peak_open": 1,
        "interrupted": False,
    }


def _request(
    index: int, due: float, sent: float | None, planned: dict[str, Any], ended: dict[str, Any],
) -> list[Event]:
    one = request_id(index)
    plan = {
        "index": index, "traffic_class": "c", "scheduled_at_s": due - ZERO_S, "prompt_tokens": 9, "max_tokens": 4,
        "stop": "forced", "timeout_s": 30.0, "prompt_key": f"k{index}", "measured": True,
    }
    end: dict[str, Any] = {"outcome": "not_sent", "reason": "not_sent/late", "ended_at_ns": ns(due)}
    events: list[Event] = [event(RequestPlanned, 1.0, "load", request_id=one, **{**plan, **planned})]
    if sent is not None:
        token_ns = ns(sent + ANSWER_S)
        events.append(event(RequestSent, sent, "load", request_id=one, scheduled_at_ns=ns(due), sent_at_ns=ns(sent)))
        end = {
            "outcome": "ok", "reason": "", "ended_at_ns": token_ns, "sent_at_ns": ns(sent),
            "first_token_at_ns": token_ns, "last_token_at_ns": token_ns, "usage_output_tokens": 4,
            "usage_prompt_tokens": 9, "http_status": 200,
        }
    events.append(event(RequestEnded, 500.0, "load", request_id=one, scheduled_at_ns=ns(due), **{**end, **ended}))
    return events
