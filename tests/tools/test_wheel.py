"""The wheel carries what an installed testbed needs beside its code."""

import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_the_wheel_has_each_topology_and_config_under_packaged(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=50)
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    specs = [path for folder in ("topologies", "configs") for path in (ROOT / folder).rglob("*.yaml")]
    assert {f"testbed/packaged/{path.relative_to(ROOT)}" for path in specs} <= names
    assert {"testbed/spec/load.py", "failure_injection/fault.py", "testbed/py.typed"} <= names
