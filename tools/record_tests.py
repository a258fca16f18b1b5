"""Write what a long tier of tests came to: when, on what, and each test with its outcome and its seconds.

    python -m tools.record_tests RESULT.xml [RESULT.xml ...]      JUnit files of pytest; writes docs/engine-tests.md

Of a test that did not pass, the outcome alone is kept: messages hold paths of the machine.
"""

import sys
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from testbed.clock import wall_time_text
from testbed.engines.processor import read_processor
from testbed.experiment.record import git_commit, installed_versions

TARGET = Path("docs/engine-tests.md")
_OUTCOMES = {"failure": "failed", "error": "broken", "skipped": "skipped"}


@dataclass(frozen=True)
class Outcome:
    """One test: its file, its name with parameters, what came of it, and the seconds with its fixtures."""

    file: str
    name: str
    outcome: str
    took_s: float


@dataclass(frozen=True)
class Made:
    """When, from what and on what the tests ran."""

    at: str
    commit: str
    versions: Mapping[str, str]
    machine: str


def outcomes(junit: str) -> Iterator[Outcome]:
    """The tests of one JUnit file, in its order; a test that passed and whose fixture broke afterwards is broken."""
    found: dict[tuple[str, str], Outcome] = {}
    for case in ET.fromstring(junit).iter("testcase"):
        key = (case.attrib["classname"].replace(".", "/") + ".py", case.attrib["name"])
        worst = next((word for tag, word in _OUTCOMES.items() if case.find(tag) is not None), "passed")
        before = found.get(key)
        # pytest tells a broken teardown as a second case of the same test.
        took_s = float(case.attrib["time"]) + (before.took_s if before else 0.0)
        found[key] = Outcome(*key, worst if before is None or worst != "passed" else before.outcome, took_s)
    yield from found.values()


def document(made: Made, tests: Iterable[Outcome]) -> str:
    """The page, as Markdown."""
    listed = list(tests)
    counted = Counter(test.outcome for test in listed)
    sums = ", ".join(f"{counted[word]} {word}" for word in ("passed", *_OUTCOMES.values()) if counted[word])
    versions = ", ".join(f"{name} {version}" for name, version in sorted(made.versions.items()))
    total_s = sum(test.took_s for test in listed)
    rows = [f"| {test.file} | {test.name} | {test.outcome} | {test.took_s:.0f} |" for test in listed]
    return "\n".join([
        "# The long tests with real engines: their last run",
        "",
        "`make test-engine-all` runs what takes too long for `make test`, and writes this page.",
        "",
        f"- **{sums}**, in {total_s / 60:.0f} minutes, at {made.at}",
        f"- commit {made.commit}",
        f"- {made.machine}",
        f"- {versions}",
        "",
        "| file | test | outcome | s |",
        "|---|---|---|---|",
        *rows,
        "",
    ])


def this_machine() -> Made:
    """Now, here. Of a tree that was changed since its last commit, the commit says so."""
    processor, commit = read_processor(), git_commit()
    memory_gib = psutil.virtual_memory().total / 2**30
    machine = f"{processor.name}, {processor.cores} cores, {memory_gib:.0f} GiB of memory, no GPU used"
    return Made(wall_time_text(), commit if commit is not None else "not known", installed_versions(), machine)


def main(arguments: list[str]) -> int:
    """Write the page; 2 without a file to read, 1 where not every test passed."""
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    tests = [test for name in arguments for test in outcomes(Path(name).read_text(encoding="utf-8"))]
    TARGET.write_text(document(this_machine(), tests), encoding="utf-8")
    print(f"{TARGET}: {len(tests)} tests")
    return 0 if tests and all(test.outcome == "passed" for test in tests) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
