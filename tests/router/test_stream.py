"""The answer as bytes: whole events, whatever the pieces, and what an engine says of its own work."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.router.stream import (
    EVENT_LIMIT_BYTES,
    AnswerTooLong,
    Usage,
    WholeEvents,
    error_in_stream,
    message_of,
    usage_of,
    usage_of_stream,
)

EVENTS = [b"data: a\n\n", b"data: \xc3\xa9\r\n\r\n", b": note\n\n", b"event: x\rdata: b\r\r", b"data: {}\n\n"]


def cut(whole: bytes, places: list[int]) -> list[bytes]:
    """`whole` in pieces that end at `places`."""
    ends = sorted({min(place, len(whole)) for place in places} | {len(whole)})
    return [whole[start:end] for start, end in zip([0, *ends], ends, strict=False)]


@given(st.lists(st.sampled_from(EVENTS), max_size=8), st.lists(st.integers(0, 80), max_size=12))
def test_nothing_is_lost_or_changed_however_a_stream_is_cut(events: list[bytes], places: list[int]) -> None:
    whole = b"".join(events)
    stream = WholeEvents()
    out = [stream.feed(piece) for piece in cut(whole, places)]
    assert b"".join(out) + stream.rest() == whole


@given(st.lists(st.sampled_from([b"data: a\n\n", b"data: bc\n\n"]), max_size=8), st.lists(st.integers(0, 80)))
def test_what_comes_out_ends_with_an_event(events: list[bytes], places: list[int]) -> None:
    stream = WholeEvents()
    for piece in cut(b"".join(events), places):
        out = stream.feed(piece)
        assert out == b"" or out.endswith(b"\n\n")
    assert stream.rest() == b""


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
def test_an_event_comes_out_with_the_piece_that_ends_it(line_end: bytes) -> None:
    stream = WholeEvents()
    pieces = (b"data: a" + line_end, line_end + b"data: b", line_end + line_end)
    assert [stream.feed(piece) for piece in pieces] == [
        b"", b"data: a" + line_end + line_end, b"data: b" + line_end + line_end
    ]


def test_an_event_without_end_is_refused() -> None:
    stream = WholeEvents()
    stream.feed(b"x" * EVENT_LIMIT_BYTES)
    with pytest.raises(AnswerTooLong, match="an event of the stream is longer"):
        stream.feed(b"x")


@pytest.mark.parametrize(
    ("answer", "usage"),
    [
        (b'{"usage": {"prompt_tokens": 3, "completion_tokens": 2}}', Usage(3, 2, None)),
        (b'{"usage": {"prompt_tokens": 3, "completion_tokens": 2, "prompt_tokens_details": null}}', Usage(3, 2, None)),
        (b'{"usage": {"prompt_tokens": 3, "prompt_tokens_details": {"cached_tokens": 1}}}', Usage(3, None, 1)),
        (b'{"usage": null}', Usage()),
        (b'{"usage": "much"}', Usage()),
        (b'no "usage" at all', Usage()),
        (b"", Usage()),
    ],
)
def test_the_usage_is_what_the_engine_said_or_unknown(answer: bytes, usage: Usage) -> None:
    assert usage_of(answer) == usage
    assert usage_of_stream(b"data: {}\n\ndata: " + answer + b"\n\ndata: [DONE]\n\n") == usage


def test_the_last_usage_counts() -> None:
    tail = b'data: {"usage": {"completion_tokens": 1}}\n\ndata: {"usage": {"completion_tokens": 2}}\n\n'
    assert usage_of_stream(tail) == Usage(None, 2, None)


def test_a_text_that_speaks_of_an_error_is_none() -> None:
    assert error_in_stream(b'data: {"choices": [{"text": "{\\"error\\": 1}"}]}\n\ndata: [DONE]\n\n') is None
    assert error_in_stream(b'data: {"error": {"message": "lost"}}\n\ndata: [DONE]\n\n') == "lost"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"error": {"message": "a", "code": 1}}', "a"), (b'{"error": "b"}', "b"), (b'{"message": "c"}', "c"),
        (b"plain", "plain"), (b'{"detail": 1}', '{"detail": 1}'), (b'{"error": {"code": 1}}', '{"error": {"code": 1}}'),
    ],
)
def test_the_message_of_an_error_is_found_in_each_form(body: bytes, message: str) -> None:
    assert message_of(body) == message
