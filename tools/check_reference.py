"""Rebuild the report of each committed run from its journal alone, and compare it with the committed one."""

import filecmp
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

REFERENCE = Path("results/reference")
REPORTS = "report*"


def differences(run: Path, command: list[str]) -> list[str]:
    """What the committed report of `run` and the one that `command` makes of its journal do not share."""
    if not list(run.glob(REPORTS)):
        return [f"{run} has no report to compare with"]
    with tempfile.TemporaryDirectory() as folder:
        rebuilt = Path(folder) / run.name
        shutil.copytree(run, rebuilt, ignore=shutil.ignore_patterns(REPORTS))
        done = subprocess.run([*command, rebuilt], stdout=subprocess.DEVNULL, timeout=600, check=False)
        # 1 and 4 are verdicts of the run; the report is written all the same.
        if done.returncode not in (0, 1, 4):
            return [f"{run}: the report could not be made, exit code {done.returncode}"]
        names = sorted({path.name for side in (run, rebuilt) for path in side.glob(REPORTS)})
        _, changed, absent = filecmp.cmpfiles(run, rebuilt, names, shallow=False)
    return [f"{run / name} is not what its journal gives" for name in sorted([*changed, *absent])]


def main() -> int:
    """Print what differs; 1 if anything does."""
    runs = sorted(path.parent for path in REFERENCE.glob("**/manifest.json"))
    if not runs:
        print("check-reference: no reference run is committed, so there is nothing to compare")
        return 0
    command = [str(Path(sys.executable).with_name("testbed")), "report"]
    found = [line for run in runs for line in differences(run, command)]
    print("\n".join(found) if found else f"check-reference: {len(runs)} reports are what their journals give")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
