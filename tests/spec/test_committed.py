"""Every committed file is read, and says what its name says."""

from pathlib import PurePath

import pytest

from testbed.spec.experiment import Experiment
from testbed.spec.load import load
from tests.spec.committed import COMMITTED, FOLDERS, ROOT


@pytest.mark.parametrize("name", sorted(COMMITTED))
def test_a_committed_file_is_valid_and_named_as_it_says(name: str) -> None:
    text, model = COMMITTED[name]
    assert getattr(load(text, model, where=name).value, "name", None) == PurePath(name).stem


def test_no_committed_file_is_left_out() -> None:
    there = {path for folder in ("topologies", "configs") for path in (ROOT / folder).rglob("*.yaml")}
    assert len(there) == len(COMMITTED)
    assert {f"{path.parent.relative_to(ROOT)}" for path in there} <= FOLDERS.keys()


def test_the_demo_names_files_that_are_there() -> None:
    text, _ = COMMITTED["experiments/demo.yaml"]
    demo = load(text, Experiment, where="demo.yaml").value
    assert {f"{demo.topology}.yaml", f"workloads/{demo.workload}.yaml", f"slo/{demo.slo}.yaml"} <= COMMITTED.keys()


def test_each_control_and_each_compared_arm_of_the_demo_is_an_arm() -> None:
    text, _ = COMMITTED["experiments/demo.yaml"]
    demo = load(text, Experiment, where="demo.yaml").value
    assert demo.hypothesis is not None
    named = {arm.control for arm in demo.arms} | {demo.hypothesis.predicts.arm, demo.hypothesis.predicts.over}
    assert named - {None} <= {arm.name for arm in demo.arms}
