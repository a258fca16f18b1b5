"""The event-stream parser: the same events however the bytes are cut."""

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.drive.sse import SseError, SseParser

CASES = sorted((Path(__file__).resolve().parents[1] / "fixtures" / "sse").glob("*.sse"))


def parse(pieces: list[bytes]) -> list[bytes]:
    parser = SseParser()
    return [event for piece in pieces for event in parser.feed(piece)]


def data_of(stream: bytes) -> list[bytes]:
    return parse([stream])


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_stream_split_at_any_byte_gives_the_same_events(path: Path) -> None:
    stream = path.read_bytes()
    whole = parse([stream])
    assert whole
    assert parse([b"data: first\n\n", stream])[1:] == whole or stream.startswith(b"\xef")
    for at in range(len(stream) + 1):
        assert parse([stream[:at], stream[at:]]) == whole


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_stream_fed_byte_by_byte_gives_the_same_events(path: Path) -> None:
    stream = path.read_bytes()
    assert parse([stream[at : at + 1] for at in range(len(stream))]) == parse([stream])


def test_lf_cr_and_crlf_end_lines_alike() -> None:
    lines = [b"data: a", b"", b"data: b", b"data: c", b"", b""]
    expected = [b"a", b"b\nc"]
    assert [parse([end.join(lines)]) for end in (b"\n", b"\r", b"\r\n")] == [expected] * 3


def test_a_crlf_cut_in_the_middle_is_one_line_end() -> None:
    assert parse([b"data: a\r", b"\ndata: b\r", b"", b"\n\r\n"]) == [b"a\nb"]


def test_an_event_is_out_as_soon_as_its_blank_line_is_there() -> None:
    parser = SseParser()
    assert parser.feed(b"data: a\n") == []
    assert parser.feed(b"\n") == [b"a"]


def test_comments_and_unknown_fields_are_no_events() -> None:
    assert data_of(b": keep alive\n\nid: 3\nretry: 10\n\nevent: ping\n\n") == []


def test_only_one_space_after_the_colon_is_dropped() -> None:
    assert data_of(b"data:a\n\ndata: b\n\ndata:  c\n\ndata\n\n") == [b"a", b"b", b" c", b""]


def test_the_type_of_an_event_is_no_part_of_its_data() -> None:
    assert data_of(b"event: error\ndata: x\n\ndata: y\n\n") == [b"x", b"y"]


def test_an_event_without_its_blank_line_is_none() -> None:
    assert data_of(b"data: a\n\ndata: [DONE]\n") == [b"a"]


def test_a_byte_order_mark_is_no_part_of_the_first_field() -> None:
    assert parse([b"\xef", b"\xbb\xbfdata: a\n\n"]) == [b"a"]


@pytest.mark.parametrize("stream", [b"data: 1234567890", b"data: 1234567890\n\n", b"data: 12345\n" * 3 + b"\n"])
def test_lines_and_events_beyond_the_limit_are_refused(stream: bytes) -> None:
    with pytest.raises(SseError, match="longer than 12 bytes"):
        SseParser(line_limit_bytes=12).feed(stream)


def test_a_line_without_an_end_costs_no_more_for_its_length() -> None:
    parser, piece = SseParser(), b"x" * 65536
    # 255 pieces of 64 KiB are 1 piece below the limit of 16 MiB; looked through anew each time they would be 2 GiB
    for _ in range(255):
        assert parser.feed(piece) == []
    with pytest.raises(SseError, match="longer than 16777216 bytes"):
        parser.feed(piece + b"x")


def test_whole_events_and_the_same_bytes_one_by_one_are_read_alike() -> None:
    stream = b'data: {"a": 1}\n\ndata: [DONE]\n\n'
    odd = [b"data: a\n\n\ndata: b\n\n", b"data: a\ndata: b\n\n", b"data: \n\ndata:  x\n\n", b"data: a\r\n\n", b"\n\n"]
    for piece in [stream, *odd]:
        # the first event takes the parser off its start, where it looks for a byte order mark
        whole, single = SseParser(), SseParser()
        whole.feed(b"data: first\n\n")
        single.feed(b"data: first\n\n")
        assert whole.feed(piece) == [event for at in range(len(piece)) for event in single.feed(piece[at : at + 1])]


field = st.sampled_from([b"data", b"event", b"id", b"", b"other"])
value = st.binary(max_size=12).map(lambda raw: raw.replace(b"\r", b"").replace(b"\n", b""))
line = st.tuples(field, st.sampled_from([b":", b": "]), value).map(b"".join)
streams = st.lists(st.tuples(st.one_of(line, st.just(b"")), st.sampled_from([b"\n", b"\r", b"\r\n"]))).map(
    lambda lines: b"".join(text + end for text, end in lines)
)


@settings(max_examples=60)
@given(stream=streams, cuts=st.lists(st.integers(0, 300), max_size=8))
def test_any_stream_in_any_pieces_gives_the_same_events(stream: bytes, cuts: list[int]) -> None:
    ends = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    pieces = [stream[begin:end] for begin, end in pairwise(ends)]
    assert parse(pieces) == parse([stream]) == parse([stream[at : at + 1] for at in range(len(stream))])


@settings(max_examples=40)
@given(texts=st.lists(st.text(st.characters(exclude_characters="\r\n")), min_size=1))
def test_what_a_server_writes_is_what_is_read(texts: list[str]) -> None:
    stream = b"".join(b"data: " + text.encode() + b"\n\n" for text in texts)
    assert data_of(stream) == [text.encode() for text in texts]
