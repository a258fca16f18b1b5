"""Plans as whole texts, compared with files that were read by a human; and that each committed topology has one."""

import pytest

from tests.plan.golden_plans import FOLDER, GOLDEN
from tests.plan.sites import ROOT, text_of


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_a_plan_is_the_golden_one(name: str) -> None:
    """Where a change is meant, `python -m tests.plan.golden_plans` writes the files anew."""
    assert text_of(GOLDEN[name]()) == (FOLDER / f"{name}.txt").read_text()


def test_no_file_is_left_over_and_each_committed_topology_has_a_plan_for_a_processor() -> None:
    assert {path.stem for path in FOLDER.glob("*.txt")} == set(GOLDEN)
    committed = {f"{path.stem}_on_cpu" for path in (ROOT / "topologies").glob("*.yaml")}
    assert committed <= set(GOLDEN)
