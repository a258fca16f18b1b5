"""A stream becomes exactly one outcome, and its token counts are the server's, or none."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from testbed.drive.answer import Answer, StreamFold
from testbed.drive.outcome import judge_answer, judge_status
from testbed.drive.sse import SseParser
from testbed.missing import Missing

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "sse"
CASES = sorted(FIXTURES.glob("*.expected.json"))
REASONS = {"ok": "", "error_in_stream": "failed/error_in_stream", "empty": "failed/no_token"}


def replay(case: dict[str, Any]) -> Answer:
    """Feed the bytes of a case at the times of its feed, in ms as if they were ns."""
    body = (FIXTURES / case["body_file"]).read_bytes()
    parser, fold = SseParser(), StreamFold()
    for part in case["feed"]:
        begin, end = part["bytes"]
        for event in parser.feed(body[begin:end]):
            fold.add(event, part["at_ms"])
    return fold.answer()


def folded(*chunks: dict[str, Any] | str) -> Answer:
    fold = StreamFold()
    for at, chunk in enumerate(chunks):
        fold.add(chunk.encode() if isinstance(chunk, str) else json.dumps(chunk).encode(), at)
    return fold.answer()


def text_chunk(text: str, finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "text": text, "finish_reason": finish, **more}]}


def usage_chunk(tokens: int) -> dict[str, Any]:
    return {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": tokens}}


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_recorded_streams_are_read_as_expected(path: Path) -> None:
    case = json.loads(path.read_text())
    expected, answer = case["expect"], replay(case)
    assert judge_answer(answer) == ("ok" if expected["counted_as_success"] else "failed", REASONS[expected["outcome"]])
    assert list(zip(answer.texts, answer.chunk_at_ns, strict=True)) == [
        (delta["text"], delta["at_ms"]) for delta in expected["deltas"]
    ]
    assert answer.text == expected["text"]
    assert answer.finish_reason == expected["finish_reason"]
    assert answer.done is expected["done_seen"]
    assert answer.first_token_at_ns == expected["ttft_ms"]


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_recorded_streams_are_counted_as_expected(path: Path) -> None:
    case = json.loads(path.read_text())
    expected, answer = case["expect"], replay(case)
    if expected["usage"] is None:
        assert answer.usage is None
    else:
        assert answer.usage is not None
        assert answer.usage.prompt_tokens == expected["usage"]["prompt_tokens"]
        assert answer.usage.completion_tokens == expected["usage"]["completion_tokens"]
    if "output_tokens" in expected:
        assert answer.output_tokens == expected["output_tokens"]
    if "last_token_ms" in expected:
        assert answer.last_token_at_ns == expected["last_token_ms"]
    if "error_message_contains" in expected:
        assert expected["error_message_contains"] in str(answer.error)


def test_running_usage_tells_the_tokens_of_each_chunk() -> None:
    case = json.loads((FIXTURES / "S05_role_only_then_multi_token.expected.json").read_text())
    # usage runs 0, 2, 5, 6
    assert replay(case).chunk_tokens == [2, 3, 1]


def test_token_ids_are_counted_and_kept_and_those_of_the_prompt_are_not() -> None:
    answer = folded(
        text_chunk(" a b", token_ids=[5, 6], prompt_token_ids=[1, 2, 3]), text_chunk("", token_ids=[7]),
        text_chunk(" d", "length", token_ids=[8]), usage_chunk(4), "[DONE]",
    )
    assert answer.token_ids == [5, 6, 7, 8]
    assert answer.chunk_tokens == [2, 1, 1]
    assert (answer.first_token_at_ns, answer.last_token_at_ns) == (0, 2)


def test_text_without_a_new_token_is_no_chunk_of_its_own() -> None:
    answer = folded(text_chunk(" a", token_ids=[5]), text_chunk("b", "stop", token_ids=[]), usage_chunk(1), "[DONE]")
    assert (answer.text, answer.chunk_tokens, answer.last_token_at_ns) == (" ab", [1], 0)


def test_text_without_any_token_yet_is_not_the_first_token() -> None:
    answer = folded(text_chunk("a", token_ids=[]), text_chunk("b", "stop", token_ids=[5]), usage_chunk(1), "[DONE]")
    assert (answer.first_token_at_ns, answer.chunk_tokens) == (1, [1])


def test_a_server_that_counts_fewer_tokens_than_chunks_is_not_believed() -> None:
    answer = folded(text_chunk(" a", "stop"), usage_chunk(0), "[DONE]")
    assert answer.chunk_tokens == Missing("0 tokens came in 1 chunks without token ids")


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        (2, [1, 1]),  # two chunks with text share two tokens in one way only
        (3, Missing("3 tokens came in 2 chunks without token ids")),
        (1, Missing("1 tokens came in 2 chunks without token ids")),
    ],
)
def test_without_ids_a_total_is_divided_only_where_one_division_is_possible(tokens: int, expected: object) -> None:
    answer = folded(text_chunk(" a"), text_chunk(" b", "stop"), usage_chunk(tokens), "[DONE]")
    assert answer.chunk_tokens == expected
    assert answer.output_tokens == tokens


def test_a_single_chunk_without_ids_has_all_tokens() -> None:
    assert folded(text_chunk(" a b c", "stop"), usage_chunk(3), "[DONE]").chunk_tokens == [3]


def test_without_ids_and_usage_no_token_count_is_made_up() -> None:
    answer = folded(text_chunk(" a"), text_chunk(" b", "stop"), "[DONE]")
    assert isinstance(answer.chunk_tokens, Missing)
    assert isinstance(answer.output_tokens, Missing)


GOOD = (text_chunk(" a", token_ids=[5]), text_chunk(" b", "length", token_ids=[6]))


@pytest.mark.parametrize(
    ("chunks", "verdict"),
    [
        ((*GOOD, "[DONE]"), ("ok", "")),
        (GOOD, ("failed", "failed/no_done")),
        ((GOOD[0], "[DONE]"), ("failed", "failed/no_finish_reason")),
        ((GOOD[0], text_chunk("", "abort"), "[DONE]"), ("failed", "failed/finish_reason_abort")),
        ((text_chunk("", "stop"), "[DONE]"), ("failed", "failed/no_token")),
        ((), ("failed", "failed/no_token")),
        ((*GOOD, {"error": {"message": "x"}}, "[DONE]"), ("failed", "failed/error_in_stream")),
        (({"error": "x"},), ("failed", "failed/error_in_stream")),
        (({"object": "error", "message": "x"},), ("failed", "failed/error_in_stream")),
    ],
)
def test_each_end_of_a_stream_has_one_verdict(
    chunks: tuple[dict[str, Any] | str, ...], verdict: tuple[str, str]
) -> None:
    assert judge_answer(folded(*chunks)) == verdict


def test_an_error_without_words_is_still_an_error() -> None:
    assert judge_answer(folded(*GOOD, {"error": {}}, "[DONE]")) == ("failed", "failed/error_in_stream")


def test_only_429_counts_as_a_rejection() -> None:
    assert judge_status(429) == ("rejected", "rejected/429")
    assert judge_status(503) == ("failed", "failed/http_503")


def test_cached_tokens_come_from_the_last_usage() -> None:
    usage = {"prompt_tokens": 9, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 8}}
    answer = folded(*GOOD, {"choices": [], "usage": usage}, "[DONE]")
    assert answer.usage is not None
    assert answer.usage.prompt_tokens_details is not None
    assert answer.usage.prompt_tokens_details.cached_tokens == 8


@pytest.mark.parametrize("data", ["{", "[]", '{"choices": 3}', '{"choices": [{"text": "\\ud800"}]}'])
def test_what_is_no_chunk_is_refused(data: str) -> None:
    with pytest.raises(msgspec.MsgspecError):
        folded(data)
