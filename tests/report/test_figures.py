"""The figures, by the numbers that they draw."""

from typing import Any

import pytest

from testbed.journal.events import RequestEnded
from testbed.metrics.analysis import Analysis
from testbed.metrics.table import summarise_analysis
from testbed.report import arms, ledger, timeline
from testbed.report.canvas import DARK, LIGHT, recoloured, svg
from tests.synthetic import changed, demo_run

DEMO = Analysis(demo_run())


def texts(axes: Any) -> list[str]:
    """All annotations of a panel."""
    return [one.get_text() for one in axes.texts]


def test_the_stack_of_an_arm_is_its_prompts_and_the_work_beside_them() -> None:
    prompts = sum(view.row.planned.prompt_tokens for view in DEMO.in_arm("evicted"))
    local, loaded, computed, failed, again = ledger.parts_of(DEMO, "evicted")
    assert local + loaded + computed + failed == prompts
    # the last tokens of two full hits are computed although they were there
    assert again == 2
    assert failed == sum(load.load_bytes // 1000 for load in DEMO.loads if load.arm == "evicted" and not load.ok)


def test_bars_of_the_ledger_are_as_long_as_their_parts() -> None:
    (axes,) = ledger.draw(DEMO, LIGHT).axes
    ends: dict[int, float] = {}
    for bar in axes.patches:
        place = round(bar.get_y() + 0.3)
        ends[place] = max(ends.get(place, 0.0), bar.get_x() + bar.get_width())
    assert list(ends.values()) == [sum(ledger.parts_of(DEMO, arm.name)) for arm in DEMO.arms]


def test_an_arm_without_a_probe_is_drawn_as_no_value_not_as_zero() -> None:
    panels = arms.draw(DEMO, summarise_analysis(DEMO), LIGHT).axes
    assert texts(panels[1]) == ["no value", "0", "0", "3,968", "3,968"]
    assert len(panels[1].patches) == 4


def test_the_timeline_has_a_line_for_each_request_and_a_mark_for_each_failed_load() -> None:
    panels = timeline.draw(DEMO, LIGHT).axes
    assert [len(axes.collections[0].get_segments()) for axes in panels] == [54] * 5
    marks = [[len(line.get_xdata()) for line in axes.lines if line.get_marker() == "v"] for axes in panels]
    assert marks == [[], [], [], [8], [8]]


def test_lost_requests_are_crossed() -> None:
    run = changed(
        DEMO.run, lambda one: isinstance(one, RequestEnded) and one.request_id.endswith(".tier.0.20"), outcome="failed",
    )
    panels = timeline.draw(Analysis(run), LIGHT).axes
    crosses = [sum(len(line.get_xdata()) for line in axes.lines if line.get_marker() == "x") for axes in panels]
    assert crosses == [0, 1, 0, 0, 0]


def test_many_requests_are_thinned_and_the_struck_ones_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline, "MOST_SHOWN", 10)
    panels = timeline.draw(DEMO, LIGHT).axes
    # every sixth of 54 is 9, and up to 8 struck ones beside them
    assert len(panels[0].collections[0].get_segments()) == 9
    assert 9 <= len(panels[3].collections[0].get_segments()) <= 17
    assert "1 request in 6" in panels[3].get_title(loc="left")


def test_the_dark_picture_has_the_ink_of_dark_pages_and_the_same_shapes() -> None:
    light = svg(ledger.draw(DEMO, LIGHT))
    dark = recoloured(light, LIGHT, DARK)
    assert LIGHT.ink.encode() in light
    assert LIGHT.ink.encode() not in dark
    assert DARK.ink.encode() in dark
    assert len(dark) == len(light)
