"""What a load will send, from what was asked and what the server says of itself."""

from dataclasses import replace
from pathlib import Path

import pytest

from testbed.errors import SpecError
from testbed.experiment.asking import Served
from testbed.experiment.load_plan import Asked, Load, Traffic, plan_lines, plan_load, traffic_of_file, traffic_of_flags
from testbed.missing import Missing
from testbed.workload.described import Described, RampUp

ROOT = Path(__file__).parents[2]
SERVED = Served(("first", "second"), (None, 100))
SOME = Described(requests=20, rate_rps=200.0, input_len=30, output_len=4)


@pytest.fixture(autouse=True)
def small_corpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Enough for the prompts of these tests."""
    monkeypatch.setattr("testbed.experiment.prompts.SEEDED_TOKENS", 12_000)


def planned(described: Described = SOME, served: Served | Missing = SERVED) -> Load:
    """The load of described traffic, and nothing else asked."""
    return plan_load(Asked(url="http://h:1", traffic=traffic_of_flags(described)), served)


def asked(**changes: object) -> Asked:
    """The same, with more asked."""
    return replace(Asked(url="http://h:1", traffic=traffic_of_flags(SOME)), **changes)  # type: ignore[arg-type]


def of_file(tmp_path: Path, text: str) -> Traffic:
    path = tmp_path / "w.yaml"
    path.write_text(text)
    return traffic_of_file(str(path), {})


def test_seeded_ids_lie_in_the_vocabulary_and_none_is_special() -> None:
    load = plan_load(asked(vocab_size=40), SERVED)
    ids = {token for one in load.planned.requests for token in one.prompt}
    assert min(ids) >= 16
    assert max(ids) < 40
    assert load.prompts.probe == tuple(range(32, 40))
    assert "seeded token ids from 16 to 39" in load.prompts.told


def test_the_same_seed_plans_the_same_and_another_one_does_not() -> None:
    first = plan_load(asked(seed=1), SERVED).planned.requests
    assert first == plan_load(asked(seed=1), SERVED).planned.requests
    assert first[0].prompt != plan_load(asked(seed=2), SERVED).planned.requests[0].prompt


def test_prompts_are_cut_to_the_context_that_the_server_tells() -> None:
    long = Described(requests=3, rate_rps=9.0, input_len=150, output_len=10)
    load = plan_load(replace(Asked(url="http://h:1", traffic=traffic_of_flags(long)), model="second"), SERVED)
    assert [(len(one.prompt), one.max_tokens) for one in load.planned.requests] == [(90, 10)] * 3
    assert "  cut to fit the context or the duration: 3 inputs" in list(plan_lines(load))
    assert [len(one.prompt) for one in planned(long).planned.requests] == [150] * 3


def test_a_tokenizer_folder_makes_real_text_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = [f"word{number}" for number in range(300)]
    monkeypatch.setattr("testbed.experiment.facts.stdlib_text", lambda: " ".join(words * 3))
    vocabulary = {word: number for number, word in enumerate([*words, "<unk>"])}
    tokenizer = Tokenizer(models.WordLevel(vocab=vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    load = plan_load(asked(tokenizer=tmp_path, path="/v1/chat/completions"), SERVED)
    assert (load.facts.lengths, load.facts.tokenizer, load.facts.prompts) == ("tokens", tmp_path.name, "chat")
    assert load.prompts.wording is not None
    text = load.prompts.wording.text_of(load.planned.requests[0].prompt)
    assert tokenizer.encode(text).ids == list(load.planned.requests[0].prompt)


def test_limits_of_a_class_reach_it_by_name() -> None:
    load = plan_load(asked(goodput=["ttft:100", "random:e2el:900"]), SERVED)
    assert (load.limits["random"].ttft_s, load.limits["random"].e2e_s) == (0.1, 0.9)
    assert "  good random: ttft_s 0.1, e2e_s 0.9" in list(plan_lines(load))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"path": "/v1/embeddings"}, "--endpoint: is '/v1/embeddings'"),
        ({"tokenizer": Path("nowhere")}, "no hub is asked"),
        ({"tokenizer": Path("nowhere"), "vocab_size": 100}, "the tokenizer says how large it is"),
        ({"send_text": True, "vocab_size": 100}, "there are no token ids"),
        ({"vocab_size": 16}, "--vocab-size: is 16; must be above 16"),
        ({"goodput": ["long_doc:ttft:100"]}, "there is no traffic class 'long_doc'"),
    ],
)
def test_what_contradicts_itself_is_refused(changes: dict[str, object], told: str) -> None:
    with pytest.raises(SpecError) as caught:
        plan_load(asked(**changes), SERVED)
    assert told in str(caught.value)


def test_the_facts_tell_how_requests_arrive_as_vllm_calls_it() -> None:
    facts = planned().facts
    assert (facts.arrival, facts.request_rate, facts.burstiness) == ("poisson", 200.0, 1.0)
    ramp = planned(Described(requests=4, ramp_up=RampUp("linear", 1, 9))).facts
    assert (ramp.arrival, ramp.request_rate, ramp.ramp_up_strategy, ramp.ramp_up_end_rps) == ("ramp", None, "linear", 9)
    closed = planned(Described(requests=4, max_concurrency=2)).facts
    assert (closed.arrival, closed.request_rate, closed.max_concurrency) == ("closed", None, 2)


COMMITTED = sorted(path.stem for path in (ROOT / "configs" / "workloads").glob("*.yaml"))


# A *_natural differs from its twin in how answers stop, which has no part in the plan.
@pytest.mark.parametrize("name", [name for name in COMMITTED if not name.endswith("_natural")])
def test_every_committed_workload_can_be_driven_by_itself(name: str) -> None:
    load = plan_load(Asked(url="http://h:1", traffic=traffic_of_file(name, {})), SERVED)
    assert load.planned.requests
    assert load.facts.workload == name
    assert any("requests to http://h:1/v1/completions" in line for line in plan_lines(load))


def test_a_workload_is_sent_as_it_is_written_and_settings_change_it() -> None:
    load = plan_load(Asked(url="http://h:1", traffic=traffic_of_file("mixed", {"duration": "400s"})), SERVED)
    documents = [one for one in load.planned.requests if one.traffic_class == "long_doc"]
    # 0.25 a second for 400 s are 100 expected, with a standard deviation of 10; 1,200 to 2,400 tokens and 24 beside
    assert 60 <= len(documents) <= 140
    assert {1224 <= len(one.prompt) <= 2424 for one in documents} == {True}
    assert "duration: 400s" in load.text


def test_what_is_added_to_each_body_is_told_but_for_secrets() -> None:
    fields = {"temperature": 0.7, "Api_Key": "hidden", "return_token_ids": None}
    told = plan_load(asked(extra_body=fields), SERVED).facts.extra_body
    assert told == {"temperature": 0.7, "Api_Key": "(not kept)", "return_token_ids": None}


def test_a_workload_in_which_nothing_arrives_is_refused() -> None:
    traffic = traffic_of_file("mixed", {"duration": "1ms"})
    with pytest.raises(SpecError, match="workload mixed: not one request falls into its duration"):
        plan_load(Asked(url="http://h:1", traffic=traffic), SERVED)


CLOSED = """
name: users
requests: 6
arrival: {process: closed, concurrency: 2}
classes:
  chat: {input: {fixed: 10}, output: {fixed: 3}, stop: natural, timeout: 9s}
"""


def test_a_closed_loop_of_a_file_sets_the_cap_and_no_other_one_is_taken(tmp_path: Path) -> None:
    traffic = of_file(tmp_path, CLOSED)
    load = plan_load(Asked(url="http://h:1", traffic=traffic), SERVED)
    assert (load.facts.arrival, load.facts.max_concurrency) == ("closed", 2)
    assert any("closed loop, at most 2 in flight" in line for line in plan_lines(load))
    with pytest.raises(SpecError, match="--max-concurrency: is 3, but the closed loop has 2"):
        plan_load(Asked(url="http://h:1", traffic=traffic, max_concurrency=3), SERVED)
