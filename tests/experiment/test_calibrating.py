"""The record of a calibrated client: kept by machine and versions, found again, and told in words."""

from pathlib import Path

import pytest

from testbed.calibrate.accuracy import Accuracy
from testbed.calibrate.rate_search import Found, Held
from testbed.cli.calibrate import summary
from testbed.cli.main import VERBS, run
from testbed.errors import JournalError
from testbed.experiment import calibrating
from testbed.experiment.calibrating import known_client, measure_client, record_path, steady_load
from testbed.missing import Missing

ACCURATE = Accuracy(500, 16_000, 0.0003, 0.0009, 0.004, 0.0002, 0.0008, 0.003, -0.00001, 0.0005, 0.002)


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that has found something."""
    best = Held(400.0, ACCURATE, (0.0001, 0.0006, 0.0007), 0.31)
    monkeypatch.setattr(calibrating, "calibrate_client", lambda *_: Found(best, "at 420/s it was late"))


@pytest.mark.usefixtures("found")
def test_a_record_is_kept_and_found_again(tmp_path: Path) -> None:
    assert isinstance(known_client(tmp_path), Missing)
    record = measure_client(tmp_path, lambda text: None)
    assert known_client(tmp_path) == record
    assert (record.max_rps, record.ttft_bias_s, record.itl_error_max_s) == (400.0, 0.0002, 0.002)
    assert (record.send_lag_p99_s, record.client_cpu_ratio, record.pinned) == (0.0006, 0.31, False)
    assert "share cores" in record.placement
    assert list(tmp_path.glob("calibration/*.partial")) == []


@pytest.mark.usefixtures("found")
def test_another_version_of_what_does_the_work_needs_another_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measure_client(tmp_path, lambda text: None)
    monkeypatch.setattr(calibrating, "_versions", lambda: {"testbed": "later"})
    assert isinstance(known_client(tmp_path), Missing)


@pytest.mark.usefixtures("found")
def test_a_damaged_record_is_named(tmp_path: Path) -> None:
    measure_client(tmp_path, lambda text: None)
    record_path(tmp_path).write_text("{}")
    with pytest.raises(JournalError, match="is no calibration of a client"):
        known_client(tmp_path)


@pytest.mark.usefixtures("found")
def test_the_verb_tells_the_rate_the_errors_and_the_placement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert run(VERBS, ("calibrate", "client")) == 0
    said = capsys.readouterr()
    assert "exact to 1 ms up to 400 requests/s of 32 chunks each" in said.out
    assert "0.200    0.800    3.000" in said.out
    assert "share cores" in said.out
    assert "at 420/s it was late" in said.out
    assert "driving a stand-in" in said.err
    assert run(VERBS, ("calibrate", "client", "--json")) == 0
    record = known_client(tmp_path / "testbed")
    assert not isinstance(record, Missing)
    assert summary(record) in said.out
    assert '"max_rps": 400.0' in capsys.readouterr().out


def test_what_can_not_be_calibrated_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(VERBS, ("calibrate", "router")) == 2
    assert "client" in capsys.readouterr().err


def test_a_steady_load_has_equal_gaps_and_prompts_of_its_own() -> None:
    load = steady_load(100.0, 0.05, prompt_tokens=3, max_tokens=7)
    assert [one.scheduled_at_s for one in load] == pytest.approx([0.0, 0.01, 0.02, 0.03, 0.04])
    assert [one.prompt for one in load] == [(0, 1, 2), (1, 1, 2), (2, 1, 2), (3, 1, 2), (4, 1, 2)]
