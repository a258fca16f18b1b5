"""The bench of load generators: how a highest rate, a lag, an error and a median come about, and how they are shown."""

from array import array
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from bench.load.lines import errors_ms, highest_rps
from bench.load.measure import Measured
from bench.load.million import Look, growth_bytes
from bench.load.results import BenchResult, ToolResult, middle, read, write
from bench.load.table import markdown
from bench.load.tool import Job, Report
from testbed.errors import RunError
from testbed.missing import Missing
from testbed.stub.log import StubLog

MS = 1_000_000


def up_to(limit_rps: float, tried: list[float]) -> Callable[[float], bool]:
    def holds(rate: float) -> bool:
        tried.append(rate)
        return rate <= limit_rps

    return holds


@pytest.mark.parametrize("narrow", [True, False])
@pytest.mark.parametrize("limit_rps", [60.0, 390.0, 1500.0])
def test_the_highest_rate_is_found_from_below_and_above(limit_rps: float, narrow: bool) -> None:
    tried: list[float] = []
    found = highest_rps(up_to(limit_rps, tried), 400.0, narrow)
    if isinstance(found, Missing):
        assert (narrow, limit_rps) == (True, 60.0)  # nine steps of a quarter reach 400 / 1.25^9 = 54
    else:
        assert found <= limit_rps
        assert narrow or limit_rps <= found * 1.15


def test_a_tool_that_breaks_at_a_rate_has_not_kept_it() -> None:
    def holds(rate: float) -> bool:
        if rate > 100:
            raise RunError("it was not done")
        return True

    assert highest_rps(holds, 400.0, narrow=False) == 100.0


def column(*numbers: int) -> bytes:
    return array("q", numbers).tobytes()


def measured(report: Report) -> Measured:
    """A look at the server, then 3 requests at 100/s that came at 1000, 1012 and 1021 ms; each with two chunks."""
    log = StubLog(
        ids=[None] * 4, begun_at_ns=column(5 * MS, 1000 * MS, 1012 * MS, 1021 * MS),
        received_at_ns=column(5 * MS, 1000 * MS, 1012 * MS, 1021 * MS), first_sends=column(0, 0, 2, 4),
        sends=column(1020 * MS, 1025 * MS, 1032 * MS, 1037 * MS, 1041 * MS, 1046 * MS), peak_open=1, ended={},
    )
    return Measured(Job("u", 3, 100.0, 2, Path(), Path()), 1.0, 1, 1.0, 0.0, log, report)


NOTHING = Missing("none")
REPORT = Report(0.0205, 0.021, 0.0051, NOTHING)


def test_a_lag_is_against_the_least_late_request_and_not_against_what_came_before() -> None:
    # due at 0, 10, 20 ms after the first; came at 0, 12, 21
    assert measured(REPORT).lags_s() == pytest.approx([0.0, 0.002, 0.001])
    # 2 gaps in 21 ms
    assert measured(REPORT).received_rps() == pytest.approx(2 / 0.021)


def test_a_lag_is_absolute_where_the_schedule_is_known() -> None:
    known = replace(REPORT, lags_s=[0.001, 0.003, 0.002])
    assert measured(known).lags_s() == pytest.approx([0.001, 0.003, 0.002])


@pytest.mark.parametrize("gap", ["itl", "tpot"])
def test_an_error_is_the_tools_figure_minus_the_servers(gap: str) -> None:
    found = errors_ms(measured(replace(REPORT, gap=gap)))
    # the server: each first chunk after 20 ms, each gap 5 ms
    assert found["ttft_p50_error_ms"] == pytest.approx(0.5)
    assert found["ttft_p99_error_ms"] == pytest.approx(1.0)
    assert found["gap_p50_error_ms"] == pytest.approx(0.1)
    assert found["gap_p99_error_ms"] == NOTHING


@pytest.mark.parametrize(
    ("repeats", "expected"),
    [
        ([{"a": 3.0}, {"a": 1.0}, {"a": 2.0}], 2.0),
        ([{"a": 3.0}, {"a": "broke"}, {}], 3.0),
        ([{"a": 3.0}, {"a": "broke"}, {"a": "late"}], Missing("broke")),
        ([{"problem": "it ended with status 1"}], Missing("it ended with status 1")),
        ([], Missing("not measured")),
    ],
)
def test_a_median_is_of_the_runs_that_have_a_number(
    repeats: list[dict[str, float | str]], expected: float | Missing
) -> None:
    assert middle(repeats, "a") == expected


def test_the_page_shows_numbers_where_there_are_some_and_says_why_where_not(tmp_path: Path) -> None:
    result = BenchResult(
        created="now", machine={"processor": "p"}, command="c", placements={"pinned": "a core each"},
        stub_ceiling_rps=12_345.6,
        tools=[
            ToolResult(tool="ours", version="1", placement="pinned", gap="itl",
                       repeats=[{"highest_rps": 2600.4, "lag_p50_ms_at_50": 0.123, "lag_p99_ms_at_50": 0.456}]),
            ToolResult(tool="other", version="2", placement="pinned", gap="itl", repeats=[{"highest_rps": "too slow"}]),
            ToolResult(tool="third", version="-", placement="pinned", gap="itl", problem="it needs python9"),
        ],
    )
    write(tmp_path / "x.json", result)
    text = markdown(read(tmp_path / "x.json"))
    assert "| | ours 1 | other 2 |" in text
    assert "| highest streamed rate with lag p99 <= 5 ms [requests/s] | 2,600 | - |" in text
    assert "| lag at 50/s, p50 / p99 [ms] | 0.12 / 0.46 | - |" in text
    assert "lag at 100/s" not in text
    assert "12,346 burst answers/s" in text
    assert "- other, pinned: highest streamed rate with lag p99 <= 5 ms [requests/s]: too slow" in text
    assert "- third, pinned: not run: it needs python9" in text


def test_growth_is_of_one_process_and_counts_from_a_tenth_on() -> None:
    looks = [Look(50, {7: 10_000, 8: 5}), Look(100, {7: 40_000, 8: 5}), Look(600, {7: 41_000, 8: 5}),
             Look(1000, {7: 41_800})]
    # from 100 to 1000 requests: 1,800 bytes / 900
    assert growth_bytes(looks, 7, 1000) == 2.0
    assert growth_bytes(looks, 8, 1000) == 0.0
    with pytest.raises(RunError, match="seen 0 times"):
        growth_bytes(looks, 9, 1000)
