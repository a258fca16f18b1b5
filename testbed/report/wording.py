"""Numbers, intervals and missing values as a reader sees them."""

from testbed.metrics.statistics import Ratio
from testbed.metrics.table import Row
from testbed.missing import Missing

# Below this a time reads better in ms; files and events keep seconds.
SHORT_S = 0.1


def figure_number(value: float) -> str:
    """Three significant digits, or all digits of a whole number, with commas between thousands."""
    if value == int(value) and abs(value) >= 1:
        return f"{int(value):,}"
    if abs(value) >= 1000:
        return f"{round(value):,}"
    return f"{value:.3g}"


def _scale(value: float, unit: str) -> tuple[float, str]:
    return (1000.0, "ms") if unit == "s" and 0 < abs(value) < SHORT_S else (1.0, unit)


def number(value: float | Missing, unit: str = "") -> str:
    """A value with its unit, or "no value: reason"; a short time is told in ms."""
    if isinstance(value, Missing):
        return str(value)
    factor, shown = _scale(value, unit)
    return f"{figure_number(value * factor)} {shown}".rstrip()


def interval(low: float | Missing, high: float | Missing, factor: float = 1.0) -> str:
    """A 95 % interval, or nothing where there is none."""
    if isinstance(low, Missing) or isinstance(high, Missing):
        return ""
    return f"{figure_number(low * factor)} to {figure_number(high * factor)}"


def ratio(found: Ratio | Missing) -> str:
    """A ratio with interval and n."""
    if isinstance(found, Missing):
        return str(found)
    return f"{figure_number(found.value)} ({interval(found.low, found.high)}, n={found.n})"


def cell(row: Row, biggest: float) -> tuple[str, str]:
    """A number of the table, and below it interval and n, or why there is none. A count is its own n.

    `biggest` is the largest number beside it: all of them are told in the unit that suits that one.
    """
    if isinstance(row.value, Missing):
        return "no value", row.value.reason
    if row.statistic == "count":
        return figure_number(row.value), ""
    factor, shown = _scale(biggest, row.unit)
    between = interval(row.low, row.high, factor)
    return f"{figure_number(row.value * factor)} {shown}".rstrip(), f"{between}\nn={row.n}" if between else f"n={row.n}"
