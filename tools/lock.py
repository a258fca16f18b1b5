"""Resolve requirements/*.in into requirements/*.lock.txt: one resolver run, so that all pins agree.

Pins that stand in the lock files stay as they are unless the *.in files ask for something else; delete a line (or a
file) to let its package move. Run it with `make lock`.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.pip_settings import pip_settings, uv_sources

FOLDER = Path(__file__).resolve().parent.parent / "requirements"
CPU_LOCK, DEV_LOCK = FOLDER / "cpu.lock.txt", FOLDER / "dev.lock.txt"


def compile_pins(sources: list[str], wanted: Path, *inputs: Path) -> list[str]:
    """The pins that uv resolves `inputs` to, starting from those that stand in `wanted`."""
    uv = Path(sys.executable).with_name("uv")
    subprocess.run(
        [
            str(uv), "pip", "compile", "--quiet", "--python", sys.executable, "--no-annotate", "--no-header",
            "--override", str(FOLDER / "overrides.txt"), "--excludes", str(FOLDER / "excludes.txt"),
            *sources, "--output-file", str(wanted), *map(str, inputs),
        ],
        check=True, env={**os.environ, "UV_NO_EMIT_INDEX_URL": "1"}, timeout=900,
    )
    return [line for line in wanted.read_text().splitlines() if "==" in line]


def old_pins() -> str:
    """What the lock files hold now; empty before the first run."""
    return "".join(lock.read_text() for lock in (CPU_LOCK, DEV_LOCK) if lock.is_file())


def main() -> None:
    """Write both lock files and say what changed."""
    before = set(old_pins().split())
    # A folder of wheels may hold the CPU build of torch; else uv asks PyTorch's own index for that package alone.
    sources = uv_sources(pip_settings())
    if "--find-links" not in sources:
        sources += ["--torch-backend", "cpu"]
    with tempfile.TemporaryDirectory() as folder:
        everything, cpu = Path(folder) / "all.txt", Path(folder) / "cpu.txt"
        everything.write_text(old_pins())
        pins = compile_pins(sources, everything, FOLDER / "cpu.in", FOLDER / "dev.in")
        cpu.write_text(everything.read_text())
        cpu_pins = compile_pins([*sources, "--constraint", str(everything)], cpu, FOLDER / "cpu.in")
    CPU_LOCK.write_text("\n".join(cpu_pins) + "\n")
    DEV_LOCK.write_text("\n".join(pin for pin in pins if pin not in cpu_pins) + "\n")
    after = set(pins)
    print(f"{len(cpu_pins)} pins in {CPU_LOCK.name}, {len(pins) - len(cpu_pins)} more in {DEV_LOCK.name}")
    for sign, moved in (("-", before - after), ("+", after - before)):
        for pin in sorted(moved):
            print(f"  {sign} {pin}")


if __name__ == "__main__":
    main()
