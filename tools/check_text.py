"""No tracked file may name a path of one machine, or a host of a package registry.

    python -m tools.check_text [FILE ...]       by default all files that git tracks or would track
"""

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

# Written so that this file does not hold what it looks for. A test that needs a path of somebody uses /home/someone.
_FOLDERS = r"work|root|farm|home/(?!someone\b)\w+|Users/\w+|opt/(?:wheels|pypi)|tmp/lab"
_HOSTS = r"py" r"pi\.org|python" r"hosted\.org|npm" r"js\.(?:org|com)|deb\.debian" r"\.org"
PATTERNS = {
    "a path of one machine": re.compile(rf"(?<![\w./-])/(?:{_FOLDERS})(?:/|\b)"),
    "a host of a package registry": re.compile(_HOSTS),
}


def findings(name: str, text: str) -> Iterator[str]:
    """One line for each match: `file:line: what, the match`."""
    for number, line in enumerate(text.splitlines(), start=1):
        for what, pattern in PATTERNS.items():
            for match in pattern.finditer(line):
                yield f"{name}:{number}: {what}: {match[0]}"


def read(paths: Iterable[Path]) -> Iterator[tuple[str, str]]:
    """The text files among `paths`; what is not UTF-8 is not text."""
    for path in paths:
        if not path.is_file():
            continue
        content = path.read_bytes()
        if b"\0" not in content:
            yield str(path), content.decode("utf-8", errors="replace")


def tracked() -> list[Path]:
    """All files that git tracks, and those that it would add."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True, text=True, check=True, timeout=60,
    )
    return [Path(name) for name in listed.stdout.split("\0") if name]


def main(arguments: list[str]) -> int:
    """Print what was found; 1 if anything was."""
    paths = [Path(name) for name in arguments] if arguments else tracked()
    found = [line for name, text in read(paths) for line in findings(name, text)]
    print("\n".join(found) if found else f"no machine paths or registry hosts in {len(paths)} files")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
