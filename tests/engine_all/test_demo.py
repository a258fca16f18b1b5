"""The demo, from an empty home to a valid result."""

import pytest

from testbed.journal.run import open_run
from tests.engine_all.conftest import Ended
from tests.engine_all.home import Home

pytestmark = pytest.mark.timeout(2760)


def test_the_demo_is_valid_and_leaves_its_report_and_nothing_else(home: Home, demo: Ended) -> None:
    assert demo.code == 0, demo.said
    run = open_run(demo.folder)
    assert (run.manifest.status, run.manifest.left_behind) == ("complete", [])
    assert sorted(path.name for path in demo.folder.glob("report*")) == ["report.html", "report.md"]
    assert f"report: {demo.folder / 'report.html'}" in demo.said
    assert home.left_at_last() == []
