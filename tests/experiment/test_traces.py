"""Traces are found beside the workload that names them, read once, and planned like any other traffic."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from testbed.errors import JournalError, SpecError
from testbed.experiment.faults import refuse_impossible_faults
from testbed.experiment.load_plan import Asked, plan_lines, plan_load, traffic_of_file
from testbed.experiment.specs import read_experiment, trace_of
from testbed.experiment.traces import find_trace, guess_format, look_at, read_trace, spec_as_recorded, token_counter
from testbed.journal.events import ArmBegan, RequestPlanned, RequestSent
from testbed.journal.writer import JournalWriter
from testbed.missing import Missing
from testbed.plan.arrivals import arrival_distances
from testbed.plan.experiment import ExperimentPlan, ExperimentSpecs, plan_experiment
from testbed.plan.facts import Facts, MachineFacts, ModelFacts
from testbed.plan.text import plan_text
from testbed.spec.load import load
from testbed.spec.trace import Trace
from testbed.spec.workload import Workload
from testbed.workload.scale import Speed
from tests.demo_facts import manifest

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests" / "fixtures" / "traces"
FACTS = Facts(
    ModelFacts("m", "models/m", "float32", 46_080, 8192),
    MachineFacts("python", "lmcache", "redis-server", frozenset(), 20 * 2**30, 8 * 2**30, 2),
    Speed(((64, 0.2), (512, 1.6)), 0.06),
    tuple(range(3, 40_000)),
    count_tokens=len,
)


def spec(**changes: object) -> Trace:
    return Trace.model_validate({"file": "t", "format": "mooncake", "timeout": "60s"} | changes)


@pytest.fixture(scope="module")
def specs() -> ExperimentSpecs:
    """The committed experiment that plays a trace."""
    return read_experiment(ROOT / "configs" / "experiments" / "trace_replay.yaml", "cpu", {})


@pytest.fixture(scope="module")
def plan(specs: ExperimentSpecs) -> ExperimentPlan:
    return plan_experiment(specs, FACTS)


def test_an_experiment_with_a_trace_is_planned_as_its_spec_says(plan: ExperimentPlan) -> None:
    requests = plan.workload.requests
    assert len(requests) == 40
    assert set(plan.limits) == {"mooncake_trace"}
    # the first prompt of the file: 6758 tokens x 1/32 = 211.2, and 500 / 32 = 15.6 tokens of answer
    assert sorted((len(one.prompt), one.max_tokens) for one in requests if one.scheduled_at_s < 60)[0] == (72, 10)
    assert (212, 16) in {(len(one.prompt), one.max_tokens) for one in requests}
    # block 0 of every prompt but the first: 512 / 32
    assert [one.hit_tokens for one in requests] == [0] + [16] * 39
    assert arrival_distances(plan.specs.workload, plan.workload) == {}
    refuse_impossible_faults(plan)


def test_the_plan_tells_where_its_requests_come_from_and_names_no_folder(plan: ExperimentPlan) -> None:
    text = plan_text(plan, ())
    assert "trace traces/conversation_excerpt.jsonl (mooncake), sha256 " in text
    assert "120 requests over 41.999 s, 2.857 a second, time stamps in ms" in text
    assert "spread evenly, by seed, over the 3 s that follow each" in text
    assert "40 planned = 40 to send + 0 not sent" in text
    assert str(ROOT) not in text


def test_the_manifest_keeps_the_digest_of_a_trace_and_not_the_file(specs: ExperimentSpecs) -> None:
    assert specs.trace is not None
    assert specs.texts["trace"] == f"conversation_excerpt.jsonl: 120 requests, sha256 {specs.trace.sha256}\n"
    assert len(specs.trace.sha256) == 64


def test_a_context_that_ends_within_a_block_holds_whole_blocks(specs: ExperimentSpecs) -> None:
    facts = replace(FACTS, model=replace(FACTS.model, max_model_len=1000))
    with pytest.raises(SpecError, match="more than the context of 959"):  # 15 blocks of 64, one token to spare
        plan_experiment(specs, facts)
    assert specs.workload.trace is not None
    cut = specs.workload.trace.model_copy(update={"too_long": "cut"})
    made = plan_experiment(replace(specs, workload=specs.workload.model_copy(update={"trace": cut})), facts)
    assert made.max_model_len == 960


@pytest.mark.parametrize("name", ["azure_trace", "sharegpt_trace", "mooncake_trace"])
def test_a_committed_trace_can_be_planned(name: str, specs: ExperimentSpecs) -> None:
    path = ROOT / "configs" / "workloads" / f"{name}.yaml"
    workload = load(path.read_text(), Workload, where=name).value
    made = plan_experiment(replace(specs, workload=workload, trace=trace_of(workload, path)), FACTS)
    assert {one.traffic_class for one in made.workload.requests} == {name}
    assert all(one.scheduled_at_s < made.workload.duration_s for one in made.workload.requests[:-1])


def test_conversations_are_counted_by_the_models_own_tokenizer(specs: ExperimentSpecs) -> None:
    path = ROOT / "configs" / "workloads" / "sharegpt_trace.yaml"
    workload = load(path.read_text(), Workload, where="w").value
    traced = replace(specs, workload=workload, trace=trace_of(workload, path))
    letters = plan_experiment(traced, FACTS).workload.requests
    estimated = plan_experiment(traced, replace(FACTS, count_tokens=None)).workload.requests
    # len counts a token a letter, the estimate a quarter of that
    assert sum(one.max_tokens for one in letters) > 3 * sum(one.max_tokens for one in estimated)
    assert [one.turn for one in letters if one.session == 3] == [1, 2, 3]


def test_a_trace_is_found_beside_the_workload_and_then_as_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "beside").mkdir()
    (tmp_path / "here.jsonl").touch()
    assert find_trace("here.jsonl", beside=tmp_path / "beside", where="w") == Path("here.jsonl")
    (tmp_path / "beside" / "here.jsonl").touch()
    assert find_trace("here.jsonl", beside=tmp_path / "beside", where="w") == tmp_path / "beside" / "here.jsonl"
    with pytest.raises(SpecError, match=r'w: there is no trace "gone\.jsonl"; looked at .*beside/gone\.jsonl, gone'):
        find_trace("gone.jsonl", beside=tmp_path / "beside", where="w")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mooncake_excerpt.jsonl", "mooncake"), ("azure_excerpt.csv", "azure"), ("T06_sharegpt_roles.json", "sharegpt"),
        (".", "journal"),
    ],
)
def test_a_format_is_told_by_how_the_file_begins(name: str, expected: str) -> None:
    assert guess_format(FIXTURES / name) == expected


def test_what_is_no_trace_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="no trace of a known kind"):
        guess_format(FIXTURES / "README.md")
    with pytest.raises(SpecError, match="No such file"):
        read_trace(spec(), tmp_path / "gone")
    with pytest.raises(JournalError, match="is not a run"):
        read_trace(spec(format="journal"), tmp_path)


def test_bad_rows_are_told_together_or_skipped() -> None:
    path = FIXTURES / "T03_mooncake_hash_length_mismatch.jsonl"
    with pytest.raises(SpecError, match="2 problems"):
        read_trace(spec(), path)
    assert len(read_trace(spec(bad_rows="skip"), path).rows) == 3


def test_a_file_that_looks_like_seconds_is_warned_of_and_another_unit_is_believed() -> None:
    path = FIXTURES / "T02_mooncake_looks_like_seconds.jsonl"
    assert "5000 a second" in read_trace(spec(), path).warnings[0]
    assert read_trace(spec(time_unit="s"), path).warnings == ()
    assert look_at(path, "mooncake", "ms", None, None).warnings != ()


def test_a_look_tells_the_wanted_capacities_of_blocks_and_none_of_pieces() -> None:
    reuse = look_at(FIXTURES / "mooncake_excerpt.jsonl", "mooncake", "ms", [5120], None).stats.reuse
    assert not isinstance(reuse, Missing)
    assert [cache.capacity_tokens for cache in reuse.caches] == [5120, None]
    talks = look_at(FIXTURES / "T06_sharegpt_roles.json", "sharegpt", "ms", [5120], None)
    assert not isinstance(talks.stats.reuse, Missing)
    assert [cache.capacity_tokens for cache in talks.stats.reuse.caches] == [None]
    assert talks.stats.rate == Missing("conversations have no times")
    assert talks.notes == (
        "tokens are estimated, 4 characters each; --tokenizer FOLDER counts them",
        "1 questions have no answer and are left out",
    )


def test_a_folder_without_a_tokenizer_is_told_when_it_is_asked(tmp_path: Path) -> None:
    count = token_counter(tmp_path)
    with pytest.raises(SpecError, match=r"tokenizer\.json: there is no such file"):
        count("a text")


def planned(index: int, at_s: float, tokens: int, turn: int | None = None) -> dict[str, object]:
    return {
        "request_id": f"R.a.0.{index}", "index": index, "traffic_class": "chat", "scheduled_at_s": at_s,
        "prompt_tokens": tokens, "max_tokens": 8, "stop": "natural", "timeout_s": 60.0, "prompt_key": f"k{index}",
        "measured": True, "session": None if turn is None else 1, "turn": turn,
    }


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Path]:
    """A run with two arms; in the first, the second turn waited for its answer until 9 s."""
    (tmp_path / "manifest.json").write_bytes(msgspec.json.encode(manifest()))
    with closing(JournalWriter(tmp_path / "events", "driver")) as journal:
        for arm in ("one", "two"):
            journal.enter(arm, 0)
            journal.write(ArmBegan, zero_at_ns=10**9, probed=False, policy="none")
            journal.write(RequestPlanned, **planned(0, 1.0, 30, turn=1))
            journal.write(RequestPlanned, **planned(1, 4.0, 50, turn=2))
            due_s = 9 if arm == "one" else 4
            journal.write(RequestSent, request_id="R.a.0.1", scheduled_at_ns=(due_s + 1) * 10**9, sent_at_ns=0)
        yield tmp_path


def test_a_run_is_replayed_as_it_was_due(run: Path) -> None:
    rows = read_trace(spec_as_recorded(run, "journal"), run).rows
    assert [(row.at_ns / 1e9, row.input_tokens, row.turn, row.traffic_class) for row in rows] == [
        (1.0, 30, 1, "chat"), (9.0, 50, 2, "chat")
    ]
    assert [row.at_ns / 1e9 for row in read_trace(spec(format="journal", arm="two"), run).rows] == [1.0, 4.0]


def test_an_arm_that_is_not_there_is_refused_with_those_that_are(run: Path) -> None:
    with pytest.raises(SpecError, match="has no arm three; its arms are one, two"):
        read_trace(spec(format="journal", arm="three"), run)


def test_a_replayed_run_keeps_its_classes_in_an_experiment(run: Path, specs: ExperimentSpecs) -> None:
    workload = Workload.model_validate(
        {"name": "again", "trace": {"file": str(run), "format": "journal", "timeout": "60s"}}
    )
    made = plan_experiment(replace(specs, workload=workload, trace=trace_of(workload, run / "w.yaml")), FACTS)
    assert set(made.limits) == {"chat"}
    assert [one.hit_tokens for one in made.workload.requests] == [0, 30]


def test_a_load_plays_a_trace_with_limits_for_its_classes() -> None:
    path = str(ROOT / "configs" / "workloads" / "mooncake_trace.yaml")
    asked = Asked("http://127.0.0.1:9", traffic_of_file(path, {}), model="m", goodput=("ttft:300",))
    made = plan_load(asked, Missing("the server does not say"))
    assert [one.hit_tokens for one in made.planned.requests] == [0] + [16] * 39
    assert set(made.limits) == {"mooncake_trace"}
    assert any("40 planned = 40 to send + 0 not sent" in line for line in plan_lines(made))
