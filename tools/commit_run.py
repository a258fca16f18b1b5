"""Copy a run into results/reference without anything of the machine that made it, and write its report anew.

    python -m tools.commit_run results/RUN

Host names and the paths of the tree, the home and the temporary folder become placeholders. Logs stay behind: they are
for the machine at hand.
"""

import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from testbed.journal.run import open_run

REFERENCE = Path("results/reference")


def placeholders(tree: Path, home: Path) -> dict[str, str]:
    """What is replaced by what, the longest first, so that a path within another is met before it."""
    found = {str(tree): "TREE", str(home): "HOME", tempfile.gettempdir(): "TEMP"}
    return dict(sorted(found.items(), key=lambda pair: -len(pair[0])))


def scrubbed(text: str, replacements: Mapping[str, str], host: str) -> str:
    """`text` with paths replaced wherever they stand, and the host name where it is a whole JSON string."""
    for old, new in replacements.items():
        text = re.sub(rf"(?<![\w.-]){re.escape(old)}(?![\w-])", new, text)
    return text.replace(f'"{host}"', '"host-0"')


def copy_run(run: Path, target: Path) -> None:
    """Manifest, golden answers and events, scrubbed."""
    replacements = placeholders(Path(__file__).resolve().parents[1], Path.home())
    for path in (run / "manifest.json", run / "golden.json", *sorted((run / "events").glob("*.jsonl"))):
        goal = target / path.relative_to(run)
        goal.parent.mkdir(parents=True, exist_ok=True)
        goal.write_text(scrubbed(path.read_text(encoding="utf-8"), replacements, platform.node()), encoding="utf-8")


def main(arguments: list[str]) -> int:
    """Replace the reference run by the one named."""
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    run = Path(arguments[0])
    opened = open_run(run)
    if opened.manifest.status != "complete":
        print(f"{run} is {opened.manifest.status}; only a complete run can be a reference", file=sys.stderr)
        return 4
    shutil.rmtree(REFERENCE, ignore_errors=True)
    copy_run(run, REFERENCE)
    command = [str(Path(sys.executable).with_name("testbed")), "report", str(REFERENCE)]
    code = subprocess.run(command, timeout=600, check=False).returncode
    size = sum(path.stat().st_size for path in REFERENCE.rglob("*") if path.is_file())
    events = len(open_run(REFERENCE).journal.events)
    print(f"{REFERENCE}: {events} events, {size / 2**20:.1f} MiB; its verdict is exit code {code}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
