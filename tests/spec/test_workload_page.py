"""The page on workloads: every example on it is a workload or a part of one, and no key is left out."""

import re
from pathlib import Path
from typing import Any

import pytest

from testbed.spec.arrival import Bursts, Closed, Constant, Gamma, Poisson, Ramp, RateStep, Step
from testbed.spec.lengths import Empirical, GammaLengths, Lengths, Lognormal
from testbed.spec.tree import parse_tree
from testbed.spec.workload import (
    ClassSlo,
    Documents,
    Leaves,
    Popularity,
    PrefixGroups,
    SystemPrompt,
    Tenants,
    TrafficClass,
    Turns,
    Workload,
)

PAGE = (Path(__file__).parent.parent.parent / "docs" / "workloads.md").read_text()
EXAMPLES = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
CLASS = {
    "arrival": {"process": "poisson", "rate": 1}, "input": {"fixed": 8}, "output": {"fixed": 8}, "stop": "forced",
    "timeout": "9s",
}
MODELS = (
    Bursts, Closed, Constant, Gamma, Poisson, Ramp, RateStep, Step, Empirical, GammaLengths, Lengths, Lognormal,
    ClassSlo, Documents, Leaves, Popularity, PrefixGroups, SystemPrompt, Tenants, TrafficClass, Turns, Workload,
)


@pytest.mark.parametrize("text", EXAMPLES)
def test_an_example_of_the_page_is_a_workload_or_part_of_a_class(text: str) -> None:
    data: dict[str, Any] = parse_tree(text, where="docs/workloads.md").data
    whole = data if "name" in data else {"name": "w", "duration": "60s", "classes": {"c": CLASS | data}}
    Workload.model_validate(whole)


def test_every_key_is_on_the_page() -> None:
    keys = {
        field.alias if field.alias is not None else name
        for model in MODELS for name, field in model.model_fields.items()
    }
    words = set(re.findall(r"\w+", PAGE))
    assert sorted(keys - words) == []
    assert len(EXAMPLES) > 10
