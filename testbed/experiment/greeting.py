"""What a server is asked before a schedule starts: one plain question, and as many warm-ups as are wanted.

Neither is measured, and neither shares a prefix with what is.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

from testbed.drive.body import body_of, path_of
from testbed.drive.endpoint import Endpoint
from testbed.experiment.asking import QUESTION_LIMIT_S, Served, ask_once
from testbed.experiment.load_plan import Load
from testbed.missing import Missing
from testbed.workload.request import PlannedRequest

Talk = Callable[[str], None]


def greet(load: Load, endpoint: Endpoint, served: Served | Missing, warm_ups: int, talk: Talk) -> None:
    """Ask one plain question, made like the requests of the schedule and like none of them, then warm up.

    Raises: DeployError, SpecError or RunError if it is not answered.
    """
    path = path_of(load.prompts.wording)
    stop = load.planned.requests[0].stop
    question = PlannedRequest(0, "question", 0.0, load.prompts.probe, 1, stop, QUESTION_LIMIT_S, measured=False)
    body = body_of(question, endpoint, load.prompts.wording)
    ask_once(endpoint, path, body, "load.question.0.0", served=served)
    if warm_ups:
        talk(f"warming up with {warm_ups} requests")
    for number, request in enumerate(warm_up_requests(load, warm_ups)):
        body = body_of(request, endpoint, load.prompts.wording)
        ask_once(endpoint, path, body, f"load.warmup.0.{number}", served=served)


def warm_up_requests(load: Load, count: int) -> Iterator[PlannedRequest]:
    """As long as the requests of the schedule, the longest prompts first, and read backwards: they share nothing."""
    longest = sorted(load.planned.requests, key=lambda one: len(one.prompt), reverse=True)
    for number in range(count):
        like = longest[number % len(longest)]
        yield replace(like, prompt=tuple(reversed(like.prompt)), cache_salt=None, measured=False, after=None)
