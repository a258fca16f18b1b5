"""The flags of `testbed load`: those that users of vLLM and AIPerf know, and what they get for the others."""

import re
from pathlib import Path

import pytest
import typer

from testbed.cli.load_flags import (
    DATA_PREFIXES,
    ELSEWHERE,
    LoadFlags,
    described_numbers,
    extra_body,
    flag_names,
    percentiles,
    split_words,
    verb_of,
)
from testbed.cli.main import run
from testbed.errors import SpecError

FLAGS = Path(__file__).parents[1] / "fixtures" / "flags"


def flags_of(*arguments: str) -> LoadFlags:
    """What typer makes of a command line, with unknown flags let through as the verb wants it."""
    seen: list[LoadFlags] = []

    def keep(flags: LoadFlags) -> int:
        """Keep them."""
        seen.append(flags)
        return 0

    app = typer.Typer()
    app.command(context_settings={"ignore_unknown_options": True})(verb_of(keep))
    app(list(arguments), standalone_mode=False)
    return seen[0]


def names_of(file: str) -> list[str]:
    return [line for line in (FLAGS / file).read_text().splitlines() if line.startswith("--")]


def test_every_flag_of_vllm_bench_serve_is_ours_or_gets_an_answer() -> None:
    known = {*flag_names(), *ELSEWHERE}
    names = names_of("vllm_bench_serve.txt")
    assert len(names) > 90
    assert [name for name in names if name not in known and not name.startswith(DATA_PREFIXES)] == []


def test_every_flag_of_the_documentation_is_there() -> None:
    text = (Path(__file__).parents[2] / "docs" / "load-generator.md").read_text()
    told = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text.partition("## Is the client to be believed?")[0]))
    assert len(told) > 25
    assert told - {*flag_names(), "--help"} == set()


def test_no_flag_is_taken_and_refused() -> None:
    assert set(flag_names()).isdisjoint(ELSEWHERE)
    assert [name for name in flag_names() if name.startswith(DATA_PREFIXES)] == []


@pytest.mark.parametrize(
    ("vllm", "aiperf"),
    [
        (("--max-concurrency", "8"), ("--concurrency", "8")),
        (("--num-prompts", "50"), ("--request-count", "50")),
        (("--seed", "5"), ("--random-seed", "5")),
        (("--random-input-len", "70"), ("--isl", "70")),
        (("--random-output-len", "9"), ("--osl", "9")),
        (("--burstiness", "0.5"), ("--arrival-smoothness", "0.5")),
        (("--base-url", "http://h:1"), ("--url", "http://h:1")),
        (("--num-warmups", "3"), ("--warmup-request-count", "3")),
    ],
)
def test_vllms_spelling_and_aiperfs_mean_the_same(vllm: tuple[str, ...], aiperf: tuple[str, ...]) -> None:
    assert flags_of(*vllm) == flags_of(*aiperf) != flags_of()


def test_limits_may_follow_goodput_one_by_one_as_in_vllm_or_in_one_word_as_in_aiperf() -> None:
    flags = flags_of("--goodput", "ttft:300", "tpot:50", "e2el:5000", "--seed", "1", "mixed")
    assert (flags.goodput, flags.seed) == (["ttft:300"], 1)
    assert split_words(flags.words if flags.words else [], True) == ("mixed", ["tpot:50", "e2el:5000"])
    assert flags_of("--goodput", "ttft:300 tpot:50").goodput == ["ttft:300 tpot:50"]


def test_without_goodput_a_word_with_a_colon_is_a_workload() -> None:
    assert split_words(["a:b.yaml"], False) == ("a:b.yaml", [])


def test_two_workloads_are_refused() -> None:
    with pytest.raises(SpecError, match="one workload is driven at a time, not mixed and other"):
        split_words(["mixed", "other"], False)


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("--backend", "--endpoint /v1/completions"), ("--dataset-name=random", "flags describe random prompts"),
        ("--temperature", "--extra-body"), ("--request-rte", 'did you mean "--request-rate"?'),
        ("--timed-trace-chunk-hash-size", "testbed load WORKLOAD"), ("--host", "write --url http://HOST:PORT"),
        ("-q", "--help lists all"),
    ],
)
def test_an_unknown_flag_is_told_what_to_write_instead(word: str, told: str) -> None:
    with pytest.raises(SpecError) as caught:
        split_words([word, "value"], False)
    assert told in str(caught.value)
    assert len(str(caught.value).splitlines()) == 2


def test_a_key_on_the_command_line_is_refused_and_not_repeated() -> None:
    with pytest.raises(SpecError) as caught:
        split_words(["--api-key", "sk-secret"], False)
    assert "sk-secret" not in str(caught.value)
    assert "--api-key-env NAME" in str(caught.value)


def test_numbers_that_describe_traffic_contradict_a_workload() -> None:
    flags = flags_of("mixed", "--request-rate", "2", "--ramp-up-strategy", "linear")
    with pytest.raises(SpecError, match="--request-rate, --ramp-up-strategy and the workload mixed contradict"):
        described_numbers(flags, "mixed")
    assert described_numbers(flags_of("mixed", "--max-concurrency", "4"), "mixed") == {}


def test_only_numbers_that_were_given_are_handed_on() -> None:
    flags = flags_of("--request-rate", "2", "--no-ignore-eos", "--max-concurrency", "4")
    assert described_numbers(flags, None) == {"rate_rps": 2.0, "forced": False, "max_concurrency": 4}


def test_a_ramp_needs_all_of_its_numbers() -> None:
    whole = flags_of("--ramp-up-strategy", "linear", "--ramp-up-start-rps", "1", "--ramp-up-end-rps", "9")
    assert described_numbers(whole, None) == {"ramp_up": ("linear", 1.0, 9.0)}
    with pytest.raises(SpecError, match="needs all of --ramp-up-strategy, --ramp-up-start-rps, --ramp-up-end-rps"):
        described_numbers(flags_of("--ramp-up-start-rps", "1"), None)


@pytest.mark.parametrize(("text", "told"), [("50,ninety", "are no numbers"), ("101", "from 0 to 100")])
def test_percentiles_that_are_none_are_refused(text: str, told: str) -> None:
    with pytest.raises(SpecError, match=told):
        percentiles(flags_of("--metric-percentiles", text))


def test_percentiles_are_read() -> None:
    assert percentiles(flags_of("--metric-percentiles", "25,50,99.9")) == (25.0, 50.0, 99.9)


@pytest.mark.parametrize(("text", "told"), [("{", "is no JSON"), ("[1]", "is no JSON object")])
def test_an_extra_body_that_is_none_is_refused(text: str, told: str) -> None:
    with pytest.raises(SpecError, match=told):
        extra_body(flags_of("--extra-body", text))


def test_an_extra_body_may_leave_a_field_out() -> None:
    assert extra_body(flags_of("--extra-body", '{"return_token_ids": null}')) == {"return_token_ids": None}
    assert extra_body(flags_of()) == {}


def test_the_verb_says_it_in_two_lines_and_ends_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    from testbed.cli.main import VERBS

    assert run(VERBS, ("load", "--backend", "vllm")) == 2
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "error: testbed load: --backend is no flag here"
    assert said[1].startswith("hint: ")
