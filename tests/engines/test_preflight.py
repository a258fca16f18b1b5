"""The choice of a dtype, without an engine: its timings and trials are made up."""

import json
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from testbed.engines.agreement import Agreement
from testbed.engines.child import Talk
from testbed.engines.preflight import (
    MatmulTiming,
    PreflightKey,
    Trial,
    choose_dtype,
    prefill_s,
    preflight,
    read_record,
    weights_sha256,
    write_record,
)
from testbed.engines.processor import Processor
from testbed.engines.speed import PrefillPoint, Speed
from testbed.errors import DeployError
from testbed.missing import Missing

EQUAL = Agreement("equal", None, "16 tokens are equal")
NEAR = Agreement("near_tie", 3, "token 3 is 8, not 7")
WRONG = Agreement("wrong", 1, "token 1 is 9, not 5")
SPEED = Speed((PrefillPoint(64, (0.3, 0.1, 0.2)), PrefillPoint(256, (1.0, 1.0, 1.0))), 0.05, (0.04, 0.05, 0.06), 24)
CONFIG = {
    "num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 64, "vocab_size": 99,
    "max_position_embeddings": 256, "eos_token_id": 2,
}
BY_SPEED = {"bfloat16": 0.001, "float16": 0.002, "float32": 0.004}


def quiet(text: str) -> None:
    """Nobody listens."""


class FakeMeasure:
    """Timings and trials as given; remembers what was tried."""

    def __init__(self, trials: dict[str, tuple[Agreement, ...]]) -> None:
        self.trials = trials
        self.tried: list[str] = []

    def matmuls(self, talk: Talk) -> Sequence[MatmulTiming]:
        slowest_first = sorted(BY_SPEED.items(), key=lambda one: -one[1])
        return [MatmulTiming(dtype, took_s, 1.0, 10) for dtype, took_s in slowest_first]

    def trial(self, model_folder: Path, dtype: str, talk: Talk) -> Trial:
        self.tried.append(dtype)
        agreements = self.trials[dtype]
        if not agreements:
            return Trial(dtype, None, (), problem="the engine exited with status 1")
        return Trial(dtype, 50.0, agreements, speed=None if WRONG in agreements else SPEED)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (folder / "model.safetensors").write_bytes(b"weights")
    return folder


def test_the_fastest_is_taken_if_it_is_right(model: Path, tmp_path: Path) -> None:
    measure = FakeMeasure({"bfloat16": (EQUAL, NEAR)})
    record = preflight(model, "toy", tmp_path, quiet, measure)
    assert record.dtype == "bfloat16"
    assert measure.tried == ["bfloat16"]
    assert [(one.dtype, one.verdict) for one in record.candidates] == [
        ("bfloat16", "taken"), ("float16", "not_tried"), ("float32", "not_tried"),
    ]
    assert record.reason == "2 greedy answers agree with transformers at float32, 1 of them near-ties"


def test_fast_but_wrong_or_broken_ones_are_passed_over_with_evidence(model: Path, tmp_path: Path) -> None:
    measure = FakeMeasure({"bfloat16": (EQUAL, WRONG), "float16": (), "float32": (EQUAL,)})
    record = preflight(model, "toy", tmp_path, quiet, measure)
    assert record.dtype == "float32"
    assert [(one.verdict, one.detail) for one in record.candidates[:2]] == [
        ("wrong", "1 of 2 greedy answers are wrong: token 1 is 9, not 5"),
        ("failed", "the engine exited with status 1"),
    ]
    assert record.candidates[0].agreements == (EQUAL, WRONG)


def test_no_right_dtype_is_an_error_with_all_evidence_and_no_record(model: Path, tmp_path: Path) -> None:
    measure = FakeMeasure({"bfloat16": (WRONG,), "float16": (), "float32": (WRONG, EQUAL)})
    with pytest.raises(DeployError) as refused:
        preflight(model, "toy", tmp_path, quiet, measure)
    said = refused.value.message
    assert "bfloat16: wrong: 1 of 1" in said
    assert "float16: failed: the engine exited" in said
    assert "float32: wrong: 1 of 2" in said
    assert list((tmp_path / "preflight").glob("*.json")) == []


def test_the_second_call_reads_what_the_first_has_measured(model: Path, tmp_path: Path) -> None:
    first = preflight(model, "toy", tmp_path, quiet, FakeMeasure({"bfloat16": (EQUAL,)}))
    unused = FakeMeasure({})
    assert preflight(model, "toy", tmp_path, quiet, unused) == first
    assert unused.tried == []


def test_two_at_once_measure_once(model: Path, tmp_path: Path) -> None:
    inside, go_on, waiting = threading.Event(), threading.Event(), threading.Event()

    class SlowMeasure(FakeMeasure):
        def matmuls(self, talk: Talk) -> Sequence[MatmulTiming]:
            inside.set()
            assert go_on.wait(10)
            return super().matmuls(talk)

    def heard(text: str) -> None:
        if text == "waiting, since another process is measuring this machine":
            waiting.set()

    measure = SlowMeasure({"bfloat16": (EQUAL,)})
    callers = [threading.Thread(target=preflight, args=(model, "toy", tmp_path, heard, measure)) for _ in range(2)]
    callers[0].start()
    assert inside.wait(10)
    callers[1].start()
    came_to_wait = waiting.wait(10)
    go_on.set()
    for caller in callers:
        caller.join(10)
    assert came_to_wait
    assert measure.tried == ["bfloat16"]


def test_other_weights_are_measured_again(model: Path, tmp_path: Path) -> None:
    preflight(model, "toy", tmp_path, quiet, FakeMeasure({"bfloat16": (EQUAL,)}))
    (model / "model.safetensors").write_bytes(b"more weights")
    again = FakeMeasure({"bfloat16": (EQUAL,)})
    preflight(model, "toy", tmp_path, quiet, again)
    assert again.tried == ["bfloat16"]


def test_each_part_of_the_key_changes_the_file() -> None:
    key = PreflightKey(Processor("AMD EPYC (7713)", "f00", 2), {"vllm": "1"}, "toy", "abc")
    assert key.file_name.startswith("amd-epyc-7713-toy-")
    others = [
        replace(key, processor=replace(key.processor, flags_sha256="f01")),
        replace(key, processor=replace(key.processor, cores=4)),
        replace(key, versions={"vllm": "2"}), replace(key, model="toys"), replace(key, weights_sha256="abd"),
        replace(key, recipe=99),
    ]
    assert len({one.file_name for one in [key, *others]}) == 7


def test_a_record_comes_back_as_it_was_written(model: Path, tmp_path: Path) -> None:
    record = preflight(model, "toy", tmp_path, quiet, FakeMeasure({"bfloat16": (WRONG,), "float16": (EQUAL,)}))
    write_record(tmp_path / "copy.json", record)
    assert read_record(tmp_path / "copy.json") == record
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_damaged_record_is_refused_by_name(model: Path, tmp_path: Path) -> None:
    preflight(model, "toy", tmp_path, quiet, FakeMeasure({"bfloat16": (EQUAL,)}))
    path = next((tmp_path / "preflight").glob("*.json"))
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(DeployError, match="is not a preflight record") as refused:
        preflight(model, "toy", tmp_path, quiet, FakeMeasure({}))
    assert refused.value.where == str(path)


def test_a_trial_without_answers_is_never_right() -> None:
    taken, candidates = choose_dtype(["float32"], lambda dtype: Trial(dtype, 50.0, (), problem="nothing was asked"))
    assert taken is None
    assert candidates[0].verdict == "failed"


def test_a_folder_that_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DeployError, match=r"it has no config\.json"):
        weights_sha256(tmp_path)


def test_prefill_between_two_lengths_lies_on_the_line_between_them() -> None:
    # medians 0.2 s at 64 and 1.0 s at 256; 160 is half way: 0.6 s
    assert prefill_s(SPEED, 160) == pytest.approx(0.6)
    assert prefill_s(SPEED, 64) == 0.2
    assert prefill_s(SPEED, 256) == 1.0
    assert prefill_s(SPEED, 10) == 0.2


def test_prefill_beyond_what_was_measured_has_no_value() -> None:
    assert prefill_s(SPEED, 257) == Missing("prefill was measured up to 256 tokens, not 257")
