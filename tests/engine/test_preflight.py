"""Preflight with a real engine, on the tiny model."""

from pathlib import Path

import msgspec
import pytest

from testbed.engines.agreement import Reference
from testbed.engines.child import run_python
from testbed.engines.models import build_model
from testbed.engines.preflight import preflight

pytestmark = [pytest.mark.engine, pytest.mark.timeout(420)]


def test_preflight_takes_a_dtype_that_is_right_and_measures_its_speed(tmp_path: Path) -> None:
    said: list[str] = []
    shared_before = set(Path("/dev/shm").glob("psm_*"))
    folder = build_model("tiny", tmp_path, said.append)
    record = preflight(folder, folder.name, tmp_path, said.append)
    taken = next(one for one in record.candidates if one.verdict == "taken")
    assert taken.dtype == record.dtype
    assert len(taken.agreements) == 4
    assert all(agreement.kind in ("equal", "near_tie") for agreement in taken.agreements)
    assert {timing.dtype for timing in record.matmuls} == {"float32", "float16", "bfloat16"}
    lengths = [point.prompt_tokens for point in record.speed.prefill]
    assert lengths[:2] == [64, 256]  # how many more depends on the machine
    assert record.speed.prefill[-1].median_s > record.speed.prefill[0].median_s > 0
    assert record.speed.decode_s_per_token > 0
    assert set(Path("/dev/shm").glob("psm_*")) <= shared_before
    assert preflight(folder, folder.name, tmp_path, said.append) == record


def test_the_tiny_model_answers_each_prompt_in_its_own_way(tmp_path: Path) -> None:
    said: list[str] = []
    folder = build_model("tiny", tmp_path, said.append)
    text = run_python(["-m", "testbed.engines.reference", str(folder)], what="answers", talk=said.append, limit_s=120)
    answers = [tuple(one.golden.token_ids) for one in msgspec.json.decode(text, type=list[Reference])]
    assert len(set(answers)) == 4
    # 16 tokens, of which at most 4 come twice: no loop, no constant
    assert all(len(set(answer)) >= 12 for answer in answers)
