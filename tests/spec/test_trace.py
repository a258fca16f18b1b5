"""A trace in a workload: what it may say, and what is told where it says too much."""

import re
from pathlib import Path
from typing import Any

import pytest

from testbed.errors import SpecError
from testbed.spec.load import load
from testbed.spec.trace import Trace
from testbed.spec.workload import Workload

DOCS = Path(__file__).parents[2] / "docs" / "traces.md"
MOONCAKE = "{file: t.jsonl, format: mooncake, timeout: 60s"
TALKS = "{file: t.json, format: sharegpt, timeout: 60s"


def workload(trace: str, beside: str = "") -> Workload:
    return load(f"name: w\n{beside}trace: {trace}\n", Workload, where="w.yaml").value


def test_a_trace_stands_in_place_of_classes() -> None:
    found = workload(MOONCAKE + ", window: {from: 1min, to: 10min}, time_scale: 2}")
    assert found.trace is not None
    assert (found.trace.window.begin, found.trace.window.end, found.trace.time_scale) == (60.0, 600.0, 2.0)
    assert found.classes == {}
    assert found.class_names == ()


@pytest.mark.parametrize(
    ("trace", "beside", "said"),
    [
        (MOONCAKE + "}", "duration: 60s\n", "duration beside trace"),
        (MOONCAKE + "}", "arrival: {process: poisson, rate: 1}\n", "arrival beside trace"),
        (MOONCAKE + ", arm: tier}", "", "format mooncake has no arm"),
        (MOONCAKE + ", quantum: 3s}", "", "quantum means nothing for timing verbatim"),
        (MOONCAKE + ", window: {from: 10s, to: 10s}}", "", r"to \(10 s\) must be after from \(10 s\)"),
        (MOONCAKE + ", time_scale: 0}", "", "time_scale is 0.0; must be above 0"),
        (MOONCAKE + ", too_long: drop}", "", "known are refuse, skip, cut"),
        (MOONCAKE + ", length_scle: 1}", "", 'did you mean "length_scale"'),
        ("{file: t.csv, format: azur, timeout: 60s}", "", 'did you mean "azure"'),
        ("{file: t.csv, format: azure}", "", "trace.timeout is missing"),
        ("{file: t.csv, format: azure, timeout: 60s, time_unit: s}", "", "format azure has no time_unit"),
        (TALKS + "}", "", "conversations have no times, so arrival must say when they begin"),
        (TALKS + ", arrival: {process: poisson, rate: 1}, timing: dequantised}", "", "no time stamps to dequantise"),
        (TALKS + ", arrival: {process: closed, concurrency: 2}}", "", "known are constant, poisson"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_line(trace: str, beside: str, said: str) -> None:
    with pytest.raises(SpecError, match=said) as refused:
        workload(trace, beside)
    assert "w.yaml" in str(refused.value)


def test_a_workload_has_classes_or_a_trace() -> None:
    with pytest.raises(SpecError, match="give exactly one of classes, trace; found none"):
        load("name: w\nduration: 60s\n", Workload, where="w.yaml")


BLOCKS: list[Any] = re.findall(r"```yaml\n(.*?)```", DOCS.read_text(), re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=[block.splitlines()[0] for block in BLOCKS])
def test_each_example_of_the_page_is_valid(block: str) -> None:
    assert load(block, Workload, where="traces.md").value.trace is not None


def test_the_page_names_every_key() -> None:
    text = DOCS.read_text()
    assert [key for key in Trace.model_fields if f"`{key}" not in text] == []
