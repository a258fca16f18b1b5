"""Folders are absolute, and no run overwrites another."""

from pathlib import Path

import pytest

from testbed.errors import SpecError
from testbed.experiment.folders import default_folders, new_run_folder


def test_relative_results_mean_the_same_folder_from_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")
    found = default_folders(Path("results"))
    assert found.results == tmp_path / "results"
    assert found.cache == tmp_path / "cache" / "testbed"
    assert found.state.is_absolute()


def test_two_runs_of_one_second_have_folders_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("testbed.experiment.folders.run_name_time", lambda: "20261129-120000")
    names = [new_run_folder(tmp_path, "demo").name for _ in range(3)]
    assert names == ["20261129-120000-demo", "20261129-120000-demo-2", "20261129-120000-demo-3"]


def test_results_that_are_a_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("mine")
    with pytest.raises(SpecError, match="is a file"):
        new_run_folder(tmp_path / "results", "demo")
