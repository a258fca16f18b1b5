"""The section on the client: its table, its figure, and what is said where a number is missing."""

from typing import Any

import pytest

from testbed.journal.events import DriveEnded, RequestPlanned
from testbed.journal.run import Run
from testbed.metrics.analysis import Analysis
from testbed.report import arrivals, client
from testbed.report.canvas import LIGHT
from testbed.report.content import Items, Picture, Section, Table, Text
from tests.loads import load_run
from tests.synthetic import changed, demo_run, with_facts, without

DEMO = demo_run()
PICTURE = Picture("arrivals", "", "", b"", b"")
TEN = [0.1 * k for k in range(10)]


def section(run: Run) -> Section:
    """The section of a run."""
    return client.client_section(Analysis(run), PICTURE)


def rows(run: Run, caption: str) -> list[list[str]]:
    """The texts of one table, a smaller line below in brackets."""
    tables = [block for block in section(run).blocks if isinstance(block, Table)]
    table = next(one for one in tables if one.caption.startswith(caption))
    return [[f"{cell.text} ({cell.below})" if cell.below else cell.text for cell in cells] for cells in table.rows]


def told(run: Run) -> str:
    """The lines below the figure."""
    return "\n".join(line for block in section(run).blocks if isinstance(block, Items) for line in block.lines)


def test_a_drive_has_its_three_rates_its_lags_and_what_the_client_says() -> None:
    # ten requests in 0.9 s, the last five 0.2 s late: 9 gaps in 0.9 s asked, in 1.1 s sent, 10 answers in 1.12 s;
    # the median lag is half of 0.2 s; at 0.6 s those of 0.5 and 0.6 s are behind
    late = [at_s + (0.2 if at_s > 0.45 else 0.0) for at_s in TEN]
    (cells,) = rows(load_run(TEN, late, client={"client_cpu_s": 0.19, "loop_stall_count": 19}), "Each drive")
    assert cells == [
        "load", "10", "8.18", "8.93", "0.1 s", "no value (n=10, p99 needs 100)", "0.2 s", "0.2", "0.1",
        "0 s (10 stalls/s)", "1",
    ]


def test_an_earlier_journal_has_no_value_where_its_client_was_silent() -> None:
    (cells,) = rows(load_run(TEN, TEN), "Each drive")
    assert cells[-3:] == ["no value (the client said nothing of itself)"] * 3


def test_repetitions_have_a_row_each() -> None:
    again = with_facts(load_run(TEN, TEN), repetitions=2)
    assert rows(again, "Each drive")[0][0] == "load (repetition 0)"


def test_limits_and_planned_arrivals_and_calibration_are_told() -> None:
    lines = told(DEMO)
    for text in (
        "send lag p99 above 50 ms", "less than 0.98 of the asked rate", "fewer than 90% of a class",
        "Arrivals of long_doc: 28 planned arrivals lie 0.150 from poisson; 19 of 20 right plans stay within 0.257.",
        "Calibrated: up to 900 requests/s the error of 99 of 100 requests stays below 1 ms", "bias there: TTFT 0.1 ms",
    ):
        assert text in lines
    assert "not calibrated on this machine" in told(with_facts(DEMO, client_calibration=None))


def test_planned_and_found_prefix_hits_stand_side_by_side() -> None:
    found = {cells[0]: cells for cells in rows(DEMO, "Prefix hits")}
    assert list(found) == [arm.name for arm in DEMO.manifest.arms]
    hits = [hit for hit in Analysis(DEMO).hits if hit.row.arm == "tier"]
    planned, got = sum(hit.planned_tokens for hit in hits), sum(hit.found_tokens for hit in hits)
    assert found["tier"][1:4] == [str(len(hits)), f"{planned:,}", f"{got:,}"]


def test_a_plan_without_hits_has_no_table_of_them() -> None:
    blind = changed(DEMO, lambda one: isinstance(one, RequestPlanned), hit_tokens=None)
    assert not any(isinstance(block, Table) and "hits" in block.caption for block in section(blind).blocks)


def test_a_run_without_requests_says_so() -> None:
    empty = without(DEMO, lambda one: isinstance(one, RequestPlanned | DriveEnded))
    assert section(empty).blocks == (Text("No request was planned, so there is nothing to tell of the client."),)


def panels(run: Run) -> list[Any]:
    """The two panels of the figure."""
    return list(arrivals.draw(Analysis(run), LIGHT).axes)


def test_the_curves_are_the_moments_due_and_sent() -> None:
    due, sent = panels(load_run(TEN, [at_s + 0.3 for at_s in TEN]))[0].lines
    assert list(due.get_xdata()) == pytest.approx(TEN)
    assert list(sent.get_xdata()) == pytest.approx([at_s + 0.3 for at_s in TEN])
    assert list(sent.get_ydata()) == list(range(1, 11))
    # a count goes up at its moment, not before
    assert {due.get_drawstyle(), sent.get_drawstyle()} == {"steps-post"}


def test_every_lag_is_in_the_histogram_however_small_or_large() -> None:
    # 0, 1 us, 1 ms and 2.5 s; the limit of 50 ms is drawn
    lags = panels(load_run([0.0, 1.0, 2.0, 3.0], [0.0, 1.000001, 2.001, 5.5]))[1]
    values, edges, _ = lags.patches[0].get_data()
    assert values.sum() == 4
    assert (edges[0], edges[-1]) == (pytest.approx(0.01), pytest.approx(10_000))
    assert list(lags.lines[0].get_xdata()) == [50.0, 50.0]


def test_a_long_curve_is_thinned_and_keeps_its_end() -> None:
    many = [k / 100 for k in range(5000)]
    due, sent = panels(load_run(many, many))[0].lines
    assert len(due.get_xdata()) <= arrivals.MOST_POINTS + 1
    assert sent.get_xdata()[-1] == pytest.approx(49.99)
    assert sent.get_ydata()[-1] == 5000


def test_a_run_in_which_nothing_was_sent_still_has_its_figure() -> None:
    shape, lags = panels(load_run(TEN, [None] * 10))
    assert len(shape.lines) == 1
    assert lags.patches[0].get_data()[0].sum() == 0
