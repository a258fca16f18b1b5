"""For all tests: fixed seeds, the engine tiers by their folders, and no skipped test that is not listed."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

HERE = Path(__file__).parent
SKIPS = HERE / "skips.txt"

# Claims that several tests share say what they saw when they do not hold.
pytest.register_assert_rewrite("tests.contract_engine", "tests.contract_orders", "tests.contract_tier")

# The same examples each time, and no limit by the clock, for the machine is shared.
settings.register_profile("testbed", derandomize=True, deadline=None, database=None, max_examples=50)
settings.load_profile("testbed")


class SkipLedger:
    """Collects what was skipped; what is not in skips.txt fails the session."""

    def __init__(self, allowed: frozenset[str]) -> None:
        self.allowed = allowed
        self.skipped: dict[str, str] = {}

    def unlisted(self) -> list[str]:
        """A line for each skipped test that is not listed."""
        return [f"{test}: {reason}" for test, reason in sorted(self.skipped.items()) if test not in self.allowed]

    def note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        """Remember a skipped test; an expected failure is one too."""
        if report.skipped:
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
            self.skipped[report.nodeid] = str(reason)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self.note(report)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.unlisted():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for line in self.unlisted():
            terminalreporter.write_line(f"SKIPPED, and not listed in tests/skips.txt: {line}", red=True)


def allowed_skips(text: str) -> frozenset[str]:
    """The node ids of skips.txt."""
    lines = (line.strip() for line in text.splitlines())
    return frozenset(line.partition(": ")[0] for line in lines if line and not line.startswith("#"))


def pytest_configure(config: pytest.Config) -> None:
    """Keep the ledger in the process that reports, not in the workers of xdist."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(SkipLedger(allowed_skips(SKIPS.read_text())))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything below tests/engine needs a real engine, and below tests/engine_all a good deal of time too."""
    for tier in ("engine", "engine_all"):
        for item in _below(items, HERE / tier):
            item.add_marker(tier)


def _below(items: list[pytest.Item], folder: Path) -> Iterator[pytest.Item]:
    return (item for item in items if folder in item.path.parents)
