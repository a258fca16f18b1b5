"""Mooncake's lines and Azure's rows are read to the last digit, and what is none of them is told by its line."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.errors import SpecError
from testbed.workload.trace.azure import parse_time_ns, read_azure
from testbed.workload.trace.mooncake import read_mooncake, unit_warning
from testbed.workload.trace.records import Reading, TraceRow, decode_text, in_order, settle

TRACES = Path(__file__).resolve().parents[2] / "fixtures" / "traces"
HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens"


def text_of(name: str) -> str:
    return decode_text((TRACES / name).read_bytes(), where=name)


def expected(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((TRACES / f"{name}.expected.json").read_text())
    return found


def line(**changes: Any) -> str:
    return json.dumps({"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [0, 1]} | changes)


def told(reading: Reading) -> list[str]:
    return [f"{one.where}: {one.message}" for one in reading.problems]


def test_a_block_ends_every_512_tokens_and_the_last_one_with_the_prompt() -> None:
    row = read_mooncake(line(input_length=1100, hash_ids=[7, 8, 9]), where="t").rows[0]
    assert (row.ids, row.ends) == ((7, 8, 9), (512, 1024, 1100))


def test_the_lines_of_the_real_trace_are_read() -> None:
    rows = read_mooncake(text_of("mooncake_excerpt.jsonl"), where="t").rows
    assert [(row.line, row.at_ns, row.input_tokens, row.output_tokens) for row in rows] == [
        (1, 3_000_000_000, 2012, 354), (2, 3_000_000_000, 915, 355), (3, 21_000_000_000, 2651, 366),
        (4, 48_000_000_000, 3024, 111),
    ]
    assert rows[3].ids == (0, 1541, 1542, 1543, 1544, 3753)


def test_a_time_stamp_with_a_fraction_keeps_it() -> None:
    rows = read_mooncake(text_of("T02_mooncake_looks_like_seconds.jsonl"), where="t").rows
    assert [row.at_ns for row in rows] == [0, 200_000, 400_000]


def test_seconds_that_are_read_as_milliseconds_are_warned_of_with_span_and_rate() -> None:
    case = expected("T02_mooncake_looks_like_seconds")
    text = text_of("T02_mooncake_looks_like_seconds.jsonl")
    warning = unit_warning(read_mooncake(text, where="t").rows, "ms")
    # two gaps of 0.2 ms: 2 / 0.0004 s = 5,000 a second
    assert warning is not None
    assert f"in {case['span_ms_if_milliseconds']} ms, one every 0.2 ms" in warning
    assert f"({case['rate_rps_if_milliseconds']:.0f} a second); as seconds they are 0.4 s, one every 0.2 s" in warning
    rows = read_mooncake(text, where="t", unit="s").rows
    assert rows[-1].at_ns == case["span_ms_if_seconds"] * 1_000_000
    assert unit_warning(rows, "s") is None


def test_a_usual_trace_gets_no_warning() -> None:
    assert unit_warning(read_mooncake(text_of("mooncake_excerpt.jsonl"), where="t").rows, "ms") is None
    assert unit_warning((), "ms") is None


def test_ids_that_do_not_fit_the_length_are_named_by_line_and_the_rest_is_read() -> None:
    case = expected("T03_mooncake_hash_length_mismatch")
    reading = read_mooncake(text_of("T03_mooncake_hash_length_mismatch.jsonl"), where="t.jsonl")
    assert told(reading) == [
        "t.jsonl:2: 20 tokens need 1 id of 512 tokens, 2 given",
        "t.jsonl:3: 1100 tokens need 3 ids of 512 tokens, 2 given",
    ]
    assert [row.line for row in reading.rows] == case["good_lines"]


def test_a_bad_row_refuses_the_file_unless_it_is_to_be_skipped() -> None:
    reading = read_mooncake(text_of("T03_mooncake_hash_length_mismatch.jsonl"), where="t.jsonl")
    with pytest.raises(SpecError, match=r"2 problems\nt\.jsonl:2: .*\nt\.jsonl:3: "):
        settle(reading, where="t.jsonl", sha256="", bad_rows="refuse")
    kept = settle(reading, where="t.jsonl", sha256="", bad_rows="skip")
    assert len(kept.rows) == 3
    assert kept.notes[0].startswith("bad rows skipped: 2: t.jsonl:2: 20 tokens need 1 id")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"input_length": 0, "hash_ids": []}, "input_length is 0; must be at least 1"),
        ({"output_length": -3}, "output_length is -3; must be at least 1"),
        ({"timestamp": -1}, "timestamp is -1; must not be negative"),
        ({"timestamp": None}, "timestamp"),
        ({"input_length": "600"}, "input_length"),
        ({"input_length": True}, "input_length"),
        ({"hash_ids": [0, "1"]}, "hash_ids"),
        ({"input_length": 10**30}, "ids of 512 tokens, 2 given"),
    ],
)
def test_a_line_that_is_no_request_says_which_key_is_wrong(changes: dict[str, Any], said: str) -> None:
    reading = read_mooncake(f"{line()}\n{line(**changes)}\n", where="t")
    assert len(reading.rows) == 1
    assert told(reading)[0].startswith("t:2: ")
    assert said in told(reading)[0]


def test_a_missing_key_and_a_broken_line_are_told_and_other_keys_may_stand_there() -> None:
    short = '{"timestamp": 0, "input_length": 3, "output_length": 1}'
    reading = read_mooncake("\n".join([line(session="a"), short, '{"timestamp": 0,', "12"]), where="t")
    assert len(reading.rows) == 1
    assert [text.split(":")[1] for text in told(reading)] == ["2", "3", "4"]
    assert "hash_ids" in told(reading)[0]


def test_a_byte_order_mark_and_windows_line_ends_change_nothing() -> None:
    plain = f"{line()}\n{line(timestamp=5)}\n"
    strange = b"\xef\xbb\xbf" + plain.replace("\n", "\r\n").encode()
    assert read_mooncake(decode_text(strange, where="t"), where="t") == read_mooncake(plain, where="t")


def test_a_line_end_of_unicode_inside_a_line_ends_no_line() -> None:
    assert len(read_mooncake('{"s": "\u2028", ' + line()[1:], where="t").rows) == 1


def test_bytes_that_are_no_text_are_told_by_line() -> None:
    with pytest.raises(SpecError, match="t:2: is not text in UTF-8"):
        decode_text(b"{}\n\xff\n", where="t")


def test_twins_and_rows_out_of_order_are_all_kept_and_told() -> None:
    case = expected("T04_mooncake_order_and_twins")
    reading = read_mooncake(text_of("T04_mooncake_order_and_twins.jsonl"), where="t")
    settled = settle(reading, where="t", sha256="", bad_rows="refuse")
    assert len(settled.rows) == case["requests_sent"]
    assert [row.at_ns // 1_000_000 for row in settled.rows] == case["send_offsets_ms_if_sorted"]
    # equal times keep the order of the file; line 3 is line 2 again, line 6 is line 1 again
    assert [row.line for row in settled.rows] == [2, 3, 4, 1, 6, 5]
    assert settled.notes == (
        "rows moved to their place in time: 2; line 2 is earlier than the one before it",
        "rows that say the same as an earlier one: 2; each is a request of its own",
    )


def test_an_empty_file_is_refused() -> None:
    with pytest.raises(SpecError, match="holds no request"):
        settle(read_mooncake("\n\n", where="t"), where="t", sha256="", bad_rows="skip")
    with pytest.raises(SpecError, match="holds no request"):
        settle(read_azure("", where="t"), where="t", sha256="", bad_rows="skip")


def test_of_many_bad_rows_the_first_are_told_and_the_rest_counted() -> None:
    with pytest.raises(SpecError, match=r"t:20: .*\nt: and 5 more$"):
        settle(read_mooncake("x\n" * 25, where="t"), where="t", sha256="", bad_rows="refuse")


def test_azures_fractions_keep_every_digit() -> None:
    case = expected("T01_azure_fractional")
    rows = read_azure(text_of("T01_azure_fractional.csv"), where="t").rows
    offsets_s = [(row.at_ns - rows[0].at_ns) / 1e9 for row in rows]
    assert offsets_s == pytest.approx(case["offsets_s"], abs=case["offset_tolerance_s"])
    assert rows[1].at_ns - rows[0].at_ns == 1_000_700
    assert [row.input_tokens for row in rows] == case["input_tokens"]
    assert [row.output_tokens for row in rows] == case["output_tokens"]
    assert len(set(offsets_s)) == case["distinct_offsets"]


def test_the_rows_of_the_real_csv_are_read() -> None:
    rows = read_azure(text_of("azure_excerpt.csv"), where="t").rows
    # 18:17:03.9799600 to 18:17:04.1206440 is 0.140684 s
    assert [(row.line, row.input_tokens, row.output_tokens) for row in rows] == [
        (2, 4808, 10), (3, 3180, 8), (4, 110, 27), (5, 7433, 14)
    ]
    assert rows[3].at_ns - rows[0].at_ns == 140_684_000


@pytest.mark.parametrize(
    ("text", "at_ns"),
    [
        ("1970-01-01 00:00:01", 1_000_000_000), ("1970-01-02T00:00:00.5", 86_400_500_000_000),
        ("1970-01-01 00:00:00.000000001", 1), ("1970-01-01 01:00:00+01:00", 0), ("1970-01-01 00:00:00.1Z", 100_000_000),
        ("2023-13-01 00:00:00", None), ("2023-11-16", None), ("12", None), ("", None), ("1970-01-01 00:00:00.", None),
    ],
)
def test_a_time_is_what_it_says_or_nothing(text: str, at_ns: int | None) -> None:
    assert parse_time_ns(text) == at_ns


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("2023-11-16 18:15:46,374", "has 2 fields; the first line has 3"),
        ("16.11.2023,374,44", 'TIMESTAMP is "16.11.2023"'),
        ("2023-11-16 18:15:46,,44", 'ContextTokens is ""; must be a whole number'),
        ("2023-11-16 18:15:46,3.5,44", 'ContextTokens is "3.5"'),
        ("2023-11-16 18:15:46,374,0", "GeneratedTokens is 0; must be at least 1"),
        ("2023-11-16 18:15:46,-2,44", "ContextTokens is -2; must be at least 1"),
    ],
)
def test_a_row_that_is_none_says_which_column_is_wrong(row: str, said: str) -> None:
    reading = read_azure(f"{HEADER}\r\n{row}\r\n", where="t")
    assert reading.rows == ()
    assert said in told(reading)[0]
    assert told(reading)[0].startswith("t:2: ")


def test_columns_are_found_by_name_and_a_missing_one_is_told() -> None:
    rows = read_azure("GeneratedTokens,model,ContextTokens,timestamp\n4,m,3,1970-01-01 00:00:00\n", where="t").rows
    assert rows == (TraceRow(line=2, at_ns=0, input_tokens=3, output_tokens=4),)
    assert told(read_azure("a,b\n1,2\n", where="t")) == [
        "t:1: has no column TIMESTAMP, ContextTokens, GeneratedTokens in its first line"
    ]


@settings(max_examples=30, deadline=None)
@given(text=st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=200))
def test_any_text_gives_a_row_or_a_problem_for_each_line(text: str) -> None:
    lines = [one for one in text.replace("\r\n", "\n").replace("\r", "\n").split("\n") if one.strip()]
    reading = read_mooncake(text, where="t")
    assert len(reading.rows) + len(reading.problems) == len(lines)
    reading = read_azure(f"{HEADER}\n{text}", where="t")
    assert len(reading.rows) + len(reading.problems) == len(lines)


ROWS = st.tuples(st.integers(0, 10**9), st.integers(1, 3000), st.integers(1, 2000))


@settings(max_examples=30, deadline=None)
@given(rows=st.lists(ROWS, min_size=1, max_size=12), mark=st.booleans(), end=st.sampled_from(["\n", "\r\n"]))
def test_what_was_written_is_read(rows: list[tuple[int, int, int]], mark: bool, end: str) -> None:
    text = end.join(
        line(timestamp=at, input_length=n, output_length=m, hash_ids=list(range(-(-n // 512)))) for at, n, m in rows
    )
    content = (b"\xef\xbb\xbf" if mark else b"") + text.encode()
    reading = read_mooncake(decode_text(content, where="t"), where="t")
    assert [(row.at_ns, row.input_tokens, row.output_tokens) for row in reading.rows] == [
        (at * 1_000_000, n, m) for at, n, m in rows
    ]
    assert all(row.ends[-1] == row.input_tokens for row in reading.rows)


@settings(max_examples=30, deadline=None)
@given(times=st.lists(st.integers(0, 20), max_size=30))
def test_rows_in_order_are_the_same_rows_and_none_moves_that_need_not(times: list[int]) -> None:
    rows = [TraceRow(number, at, 1, 1) for number, at in enumerate(times)]
    ordered, moved = in_order(rows)
    assert sorted(ordered, key=lambda row: row.line) == rows
    assert [(row.at_ns, row.line) for row in ordered] == sorted((row.at_ns, row.line) for row in rows)
    assert (moved == 0) == (times == sorted(times))
    assert moved <= max(0, len(times) - 1)
