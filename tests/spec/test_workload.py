"""What a workload may say, and what it is told when its parts contradict each other."""

import pytest

from testbed.errors import SpecError
from testbed.spec.arrival import Closed, Ramp, Step
from testbed.spec.load import load
from testbed.spec.workload import ClassSlo, Turns, Workload

TEXT = """\
name: w
duration: 60s
classes:
  chat:
    arrival: {process: poisson, rate: 1}
    input: {fixed: 8}
    output: {fixed: 8}
    stop: forced
    timeout: 9s
"""
SHARED = TEXT.replace("    arrival: {process: poisson, rate: 1}\n", "").replace(
    "classes:", "arrival: {process: poisson, rate: 1}\nclasses:"
)
POISSON = "{process: poisson, rate: 1}"
ARRIVAL = f"arrival: {POISSON}"
GROUPS = "prefix_groups: {prefix: {fixed: 9}, change_at: 1}"


def workload(text: str) -> Workload:
    return load(text, Workload, where="w.yaml").value


def changed(old: str, new: str, text: str = TEXT) -> str:
    assert old in text
    return text.replace(old, new)


def refusal(text: str) -> str:
    with pytest.raises(SpecError) as raised:
        workload(text)
    return str(raised.value)


@pytest.mark.parametrize(
    ("arrival", "said"),
    [
        ("{process: gamma, rate: 1}", "w.yaml:5: classes.chat.arrival.burstiness is missing"),
        (
            "{process: gama, rate: 1}",
            'w.yaml:5: classes.chat.arrival.process is "gama"; known are constant, poisson, gamma, bursts, ramp, step, '
            'closed\nhint: did you mean "gamma"?',
        ),
        (
            "{proces: poisson, rate: 1}",
            "w.yaml:5: classes.chat.arrival.process is missing; known are constant, poisson, gamma, bursts, ramp, "
            'step, closed\nhint: is "proces" meant to be "process"?',
        ),
        (
            "{process: ramp, frm: 1, to: 2}",
            "w.yaml:5: classes.chat.arrival.frm is not a key; known are burstiness, from, process, to\n"
            'hint: did you mean "from"?',
        ),
        (
            "{process: ramp, from: 2, to: 2}",
            "w.yaml:5: classes.chat.arrival: from and to are equal, which is no ramp; write process: poisson with that "
            "rate",
        ),
        (
            "{process: step, steps: [{rte: 1, for: 9s}]}",
            "w.yaml:5: classes.chat.arrival.steps[0].rte is not a key; known are for, rate\n"
            'hint: did you mean "rate"?',
        ),
        (
            "{process: step, steps: []}",
            "w.yaml:5: classes.chat.arrival: steps is empty; give at least one, such as {rate: 1, for: 30s}",
        ),
        (
            "{process: step, steps: [{rate: 1, for: 2min}]}",
            "w.yaml:1: the file: the steps take 120 s, longer than the duration 60 s",
        ),
        (
            "{process: bursts, on: 5, off: 1s, rate: 1}",
            "w.yaml:5: classes.chat.arrival.on: 5 is not a duration; write a number with ms, s, min or h, such as 2s",
        ),
        (
            "{process: closed, concurrency: 2}",
            "w.yaml:4: classes.chat: a closed loop is one for all classes; put arrival beside classes, and a share "
            "into each",
        ),
    ],
)
def test_an_arrival_is_told_what_it_lacks(arrival: str, said: str) -> None:
    assert refusal(changed("{process: poisson, rate: 1}", arrival)) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (changed("duration: 60s\n", ""), "the file: give exactly one of duration, requests"),
        (changed("duration: 60s", "duration: 60s\nrequests: 3"), "the file: give exactly one of duration, requests"),
        (changed(f"    {ARRIVAL}\n", ""), "give one arrival, beside classes or in each of them; class chat has none"),
        (
            changed("classes:", f"{ARRIVAL}\nclasses:"),
            "give one arrival, beside classes or in each of them; class chat has one of its own",
        ),
        (changed("    stop:", "    share: 1\n    stop:"), "class chat has a share of an arrival that is not there"),
        (changed("    stop:", "    share: 0.5\n    stop:", SHARED), "the shares of the classes sum to 0.5; must be 1"),
        (
            SHARED + "  other: {input: {fixed: 1}, output: {fixed: 1}, stop: forced, timeout: 1s, share: 0.5}\n",
            "classes divide one arrival, so each needs a share; chat has none",
        ),
        (
            changed(ARRIVAL, "arrival: {process: closed, concurrency: 2}", SHARED),
            "a closed loop sends as its answers come; give requests instead of duration",
        ),
        (
            changed("duration: 60s", "requests: 9", changed(POISSON, "{process: ramp, from: 1, to: 2}")),
            "a ramp lasts as long as the workload; give duration instead of requests",
        ),
        (
            changed("    stop:", f"    turns: 2\n    {GROUPS}\n    stop:"),
            "prefix_groups make rounds of their own; leave out documents and turns",
        ),
        (
            changed("    stop:", f"    distinct: true\n    {GROUPS}\n    stop:"),
            "distinct is for texts alone",
        ),
        (changed("    stop:", "    turns: 0\n    stop:"), "classes.chat.turns is 0; must be at least 1 or a mapping"),
        (
            changed("    stop:", "    turns: {count: 2, release: later}\n    stop:"),
            'classes.chat.turns.release is "later"; known are planned, after_answer',
        ),
        (
            changed("    stop:", "    leaves: {share: 2, after_tokens: {fixed: 1}}\n    stop:"),
            "classes.chat.leaves.share is 2.0; must be at most 1",
        ),
        (
            changed("    stop:", "    tenants: {count: 2, sharing: none}\n    stop:"),
            'classes.chat.tenants.sharing is "none"; known are shared, isolated',
        ),
        (
            changed("input: {fixed: 8}", "input: {fixed: 8, gamma: {mean: 9, cv: 1}}"),
            "classes.chat.input: give exactly one of fixed, uniform, lognormal, gamma, empirical; found fixed, gamma",
        ),
        (
            changed("input: {fixed: 8}", "input: {empirical: {values: [1, 2], weights: [1]}}"),
            "classes.chat.input.empirical: there are 2 values and 1 weights",
        ),
        (
            changed("input: {fixed: 8}", "input: {empirical: {values: [1, 2], weights: [0, 0]}}"),
            "classes.chat.input.empirical: the weights sum to 0; at least one must be above",
        ),
        (
            changed("input: {fixed: 8}", "input: {empirical: {values: [1, 0]}}"),
            "classes.chat.input.empirical.values[1] is 0; must be above 0",
        ),
        (
            changed("input: {fixed: 8}", "input: {empirical: {values: []}}"),
            "classes.chat.input.empirical: values is empty; give at least one token count",
        ),
    ],
)
def test_what_contradicts_itself_is_refused_in_the_words_of_the_file(text: str, said: str) -> None:
    assert said in refusal(text)


def test_turns_are_a_number_or_say_when_they_are_due() -> None:
    plain = workload(changed("    stop:", "    turns: 3\n    stop:")).classes["chat"]
    waits = workload(changed("    stop:", "    turns: {count: 3, release: after_answer}\n    stop:")).classes["chat"]
    assert (plain.turn_count, plain.release, plain.session_requests) == (3, "planned", 3)
    assert (waits.turn_count, waits.release) == (3, "after_answer")
    assert waits.turns == Turns(count=3, release="after_answer")


def test_a_class_with_prefix_groups_is_four_traffic_classes_with_its_limits() -> None:
    text = changed(
        "    stop:", "    prefix_groups: {prefix: {fixed: 9}, change_at: 1}\n    slo: {ttft: 4}\n    stop:"
    )
    spec = workload(text)
    assert spec.class_names == ("chat.cold", "chat.hot", "chat.early_change", "chat.unrelated")
    assert spec.class_slo("chat.hot") == ClassSlo(ttft=4.0)
    assert spec.classes["chat"].session_requests == 4
    assert spec.classes["chat"].release == "after_answer"
    assert workload(TEXT).class_slo("chat") is None


def test_arrivals_beside_classes_are_for_all_of_them() -> None:
    closed = changed("duration: 60s", "requests: 9", changed(POISSON, "{process: closed, concurrency: 2}", SHARED))
    assert workload(closed).arrival == Closed(process="closed", concurrency=2)
    assert workload(SHARED).shares == {"chat": 1.0}
    ramp = workload(changed("{process: poisson, rate: 1}", "{process: ramp, from: 0, to: 2}")).classes["chat"].arrival
    assert isinstance(ramp, Ramp)
    assert (ramp.first_rate, ramp.last_rate, ramp.burstiness) == (0.0, 2.0, 1.0)
    steps = workload(changed("{process: poisson, rate: 1}", "{process: step, steps: [{rate: 1, for: 1min}]}"))
    step = steps.classes["chat"].arrival
    assert isinstance(step, Step)
    assert step.total_s == 60.0
