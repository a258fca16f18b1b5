"""What the README shows can be typed: its commands are understood, and its make targets exist.

That each does what it says is shown by `make test-engine-all`.
"""

import re
import shlex
from pathlib import Path

import pytest
import typer.main

from testbed.cli.main import VERBS, build_app
from tests.readme import commands

ROOT = Path(__file__).parents[1]
COMMANDS = commands((ROOT / "README.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize("line", [one for one in COMMANDS if not one.startswith("make ")])
def test_a_command_of_the_readme_is_understood(line: str) -> None:
    program, *arguments = shlex.split(line)
    assert program.endswith("testbed")
    if arguments != ["--help"]:
        verbs = getattr(typer.main.get_command(build_app(VERBS)), "commands", {})
        assert arguments[0] in verbs
        verbs[arguments[0]].make_context(arguments[0], arguments[1:])


@pytest.mark.parametrize("line", [one for one in COMMANDS if one.startswith("make ")])
def test_a_make_target_of_the_readme_exists(line: str) -> None:
    assert re.search(rf"^{shlex.split(line)[1]}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)


def test_commands_are_found_in_blocks_and_in_sentences_once() -> None:
    page = (
        "Type `testbed plan a`; `testbed plan` starts nothing.\n\n"
        "    testbed plan a   # comment\n    make it RUN=x    # more\n    other thing\n"
    )
    assert commands(page) == ["testbed plan a", "make it RUN=x"]
