"""The commands that a page shows: lines of its indented blocks, and those within a sentence that are whole.

`testbed load` alone in a sentence names the verb; with something behind it, it is a command to be typed.
"""

import re
from collections.abc import Iterator

_SHOWN = re.compile(
    r"^    (?P<line>(?:(?:\.venv/bin/)?testbed|make) .*)$|`(?P<span>(?:\.venv/bin/)?testbed (?:--|[^`\s]+ )[^`\n]+)`",
    re.MULTILINE,
)


def commands(text: str) -> list[str]:
    """Each command once, in the order of the page, without the comment behind it."""
    return list(dict.fromkeys(_found(text)))


def _found(text: str) -> Iterator[str]:
    for match in _SHOWN.finditer(text):
        yield (match["line"] or match["span"]).partition("#")[0].strip()
