"""Known figures are compared to their last digit, and none of them goes uncompared."""

import json
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tools.check_traces import KNOWN, compare, differences, figures, main

ROOT = Path(__file__).parents[2]
TRACES = ROOT / "tests" / "fixtures" / "traces"


@pytest.fixture
def known(tmp_path: Path) -> dict[str, Any]:
    """Two excerpts with figures worked out by hand, and a file that is not there."""
    for name in ("mooncake_excerpt.jsonl", "azure_excerpt.csv"):
        shutil.copy(TRACES / name, tmp_path)
    text = json.dumps({"traces": {
        "chat": {
            "file": "mooncake_excerpt.jsonl", "records": 4, "hash_ids_total": 18, "hash_ids_distinct": 11,
            # 2012 + 915 + 2651 + 3024 = 8602; (2012 + 2651) / 2
            "input_tokens": {"sum": 8602, "mean": 2150.5, "p50": 2331.5, "min": 915, "max": 3024},
            "timestamps": {"unit": "ms", "first": 3000, "last": 48000, "non_decreasing": True, "distinct": 3,
                           "most_common_gaps_ms": [[18000, 1], [27000, 1]], "max_requests_at_one_timestamp": 2},
            # 4 / 45 = 0.08889; windows of 10 s from 3 s on: two, one at 18 s, one at 45 s: two of five are empty
            "rate": {"span_s": 45.0, "mean_rps": 0.0889, "peak_rps_10s": 0.2, "windows_10s": 5, "empty_windows_10s": 2},
            # 512 + 512 + 2560 = 3584; 3584 / 8602
            "unlimited_cache": {"hit_tokens_capped_at_input_length": 3584, "hit_ratio_of_tokens": 0.416647},
        },
        "code": {
            "file": "azure_excerpt.csv", "records": 4,
            "timestamps": {"first": "2023-11-16 18:17:03.9799600", "last": "2023-11-16 18:17:04.1206440"},
        },
        "gone": {"file": "gone.jsonl", "records": 1, "timestamps": {}},
    }})
    found: dict[str, Any] = json.loads(text, parse_float=Decimal)
    return found


def test_figures_that_agree_are_no_difference(known: dict[str, Any], tmp_path: Path) -> None:
    done, wrong = compare(tmp_path, known)
    assert wrong == []
    assert done == [
        "chat: 4 requests, 0 differences", "code: 4 requests, 0 differences", "gone: not there, not compared"
    ]


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("records",), 5), (("input_tokens", "mean"), Decimal("2150.6")), (("rate", "mean_rps"), Decimal("0.0890")),
        (("timestamps", "last"), 48001), (("timestamps", "non_decreasing"), False),
        (("timestamps", "most_common_gaps_ms"), [[18000, 1]]), (("unlimited_cache", "unheard_of"), 1),
        (("unlimited_cache", "hit_ratio_of_tokens"), Decimal("0.416648")),
    ],
)
def test_a_figure_that_differs_in_its_last_digit_or_that_we_do_not_have_is_told(
    keys: tuple[str, ...], value: Any, known: dict[str, Any], tmp_path: Path
) -> None:
    holder = known["traces"]["chat"]
    for key in keys[:-1]:
        holder = holder[key]
    holder[keys[-1]] = value
    _, wrong = compare(tmp_path, known)
    assert len(wrong) == 1
    assert wrong[0].startswith("chat." + ".".join(keys))


def test_a_time_that_differs_in_its_last_digit_is_told(known: dict[str, Any], tmp_path: Path) -> None:
    known["traces"]["code"]["timestamps"]["last"] = "2023-11-16 18:17:04.1206441"
    assert len(compare(tmp_path, known)[1]) == 1


def test_every_known_figure_of_the_whole_files_is_one_of_ours() -> None:
    found = json.loads((ROOT / KNOWN).read_text(), parse_float=Decimal)
    for name, file in (("conversation", "mooncake_excerpt.jsonl"), ("azure_2023_conv", "azure_excerpt.csv")):
        expected = {key: value for key, value in found["traces"][name].items() if key != "lru_variants_hit_blocks"}
        assert not [line for line in differences(expected, figures(TRACES / file), name) if line.endswith("not found")]


def test_no_folder_is_nothing_to_do_unless_it_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TRACES_DIR", raising=False)
    assert main([]) == 0
    assert "there is no folder ../shared/traces" in capsys.readouterr().out
    assert main(["gone"]) == 2
    monkeypatch.setenv("TRACES_DIR", "gone")
    assert main([]) == 2


def test_the_exit_code_says_whether_all_agree(
    known: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "known.json"
    path.write_text(json.dumps(known, default=float))
    assert main([str(tmp_path), str(path)]) == 0
    known["traces"]["chat"]["records"] = 5
    path.write_text(json.dumps(known, default=float))
    assert main([str(tmp_path), str(path)]) == 1
    assert "chat.records: known to be 5, found 4" in capsys.readouterr().out
