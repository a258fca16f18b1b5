"""The corpus: enough real text, the same in every process."""

import hashlib
import subprocess
import sys

import pytest

from testbed.workload.corpus import stdlib_text

DIGEST = """
import hashlib
from testbed.workload.corpus import stdlib_text
print(hashlib.sha256(stdlib_text().encode()).hexdigest())
"""


@pytest.fixture(scope="module")
def text() -> str:
    """The corpus; to read it takes a second."""
    return stdlib_text()


def test_the_text_is_long_enough_to_cut_documents_from(text: str) -> None:
    assert len(text) > 150_000


def test_the_text_reads_like_documents(text: str) -> None:
    assert "regular expression" in text
    assert text.count(" the ") > 1000


def test_the_text_is_the_same_in_another_process(text: str) -> None:
    command = [sys.executable, "-c", DIGEST]
    here = hashlib.sha256(text.encode()).hexdigest()
    assert subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout.strip() == here


def test_what_is_patched_in_this_process_makes_no_difference(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.copytree.__doc__", "something else")
    monkeypatch.setattr("pprint.pprint", len)
    assert stdlib_text() == text
