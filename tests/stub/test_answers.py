"""What the stand-in answers: forms of prompts, of answers and of refusals."""

import json
import socket
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.stub.answer import answer_tokens
from testbed.stub.asked import CHAT, COMPLETIONS, read_asked
from tests.stub.conftest import LIMIT_S, Start

FAST = ("--ttft-ms", "0", "--itl-ms", "0")


def texts(events: list[Any]) -> list[str]:
    return [event["choices"][0]["text"] for event in events if event != "[DONE]" and event["choices"]]


def test_a_stream_has_a_chunk_a_token_its_usage_and_its_end(stub: Start) -> None:
    asked = {"prompt": [1, 2, 3], "max_tokens": 2, "stream": True, "stream_options": {"include_usage": True}}
    answer = stub(*FAST)().post(asked)
    first, second = answer_tokens([1, 2, 3], 2)
    assert texts(answer.events) == [f" {first}", f" {second}"]
    assert [event["choices"][0]["token_ids"] for event in answer.events[:2]] == [[first], [second]]
    assert [event["choices"][0]["finish_reason"] for event in answer.events[:2]] == [None, "length"]
    assert answer.events[2]["usage"] == {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    assert answer.events[3:] == ["[DONE]"]


def test_usage_comes_only_where_it_was_asked_for(stub: Start) -> None:
    caller = stub(*FAST)()
    assert "usage" not in json.dumps(caller.post({"prompt": [1], "max_tokens": 2, "stream": True}).events)
    options = {"include_usage": True, "continuous_usage_stats": True}
    events = caller.post({"prompt": [1], "max_tokens": 3, "stream": True, "stream_options": options}).events
    assert [event["usage"]["completion_tokens"] for event in events[:4]] == [1, 2, 3, 3]


@pytest.mark.parametrize(
    ("arguments", "sizes"),
    [
        # 5 tokens: in 2 chunks of at most 3; in chunks of 2; in 8 chunks of at most 1
        (("--chunks", "2"), [3, 2]), (("--tokens-per-chunk", "2"), [2, 2, 1]), (("--chunks", "8"), [1] * 5),
    ],
)
def test_an_answer_is_divided_as_told(stub: Start, arguments: tuple[str, ...], sizes: list[int]) -> None:
    events = stub(*FAST, *arguments)().post({"prompt": [1], "max_tokens": 5, "stream": True}).events
    assert [len(event["choices"][0]["token_ids"]) for event in events[:-1]] == sizes


def test_a_chat_begins_with_a_role_and_no_token(stub: Start) -> None:
    asked = {"messages": [{"role": "user", "content": "a b c"}], "max_completion_tokens": 2, "stream": True}
    for arguments in ((), ("--burst",)):
        opening, first, second, end = stub(*FAST, *arguments)().post(asked, CHAT).events
        assert opening["choices"][0]["delta"] == {"role": "assistant", "content": ""}
        assert opening["object"] == "chat.completion.chunk"
        assert [one["choices"][0]["delta"]["content"].split() for one in (first, second)] == [
            [str(token)] for token in answer_tokens("a b c", 2)
        ]
        assert end == "[DONE]"


def test_a_plain_answer_has_all_at_once(stub: Start) -> None:
    caller = stub(*FAST)()
    answer = caller.post({"prompt": "a b", "max_tokens": 3}).json
    assert answer["choices"][0]["token_ids"] == answer_tokens("a b", 3)
    assert answer["usage"] == {"prompt_tokens": 2, "completion_tokens": 3, "total_tokens": 5}
    chat = caller.post({"messages": [{"role": "user", "content": "a b"}], "max_tokens": 3}, CHAT).json
    assert chat["choices"][0]["message"]["content"] == answer["choices"][0]["text"]


def test_the_answer_can_end_before_its_length(stub: Start) -> None:
    answer = stub(*FAST, "--stop-after", "10")().post({"prompt": [1], "max_tokens": 50, "min_tokens": 50}).json
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert answer["usage"]["completion_tokens"] == 10


@pytest.mark.parametrize(
    ("arguments", "asks", "expected"),
    [((), {}, True), (("--no-token-ids",), {"return_token_ids": True}, False), (("--token-ids", "asked"), {}, False),
     (("--token-ids", "asked"), {"return_token_ids": True}, True)],
)
def test_token_ids_come_as_told(
    stub: Start, arguments: tuple[str, ...], asks: dict[str, bool], expected: bool
) -> None:
    answer = stub(*FAST, *arguments)().post({"prompt": [1], "max_tokens": 1, **asks}).json
    assert ("token_ids" in answer["choices"][0]) is expected


@given(ids=st.lists(st.integers(0, 200_000)), gaps=st.sampled_from(["", " ", "\n ", "\t"]))
def test_a_prompt_has_one_answer_however_it_is_spelt(ids: list[int], gaps: str) -> None:
    spelt = "[" + f"{gaps},{gaps}".join(map(str, ids)) + "]"
    asked = read_asked(COMPLETIONS, f'{{"prompt":{gaps}{spelt}, "max_tokens": 3}}'.encode())
    nested = read_asked(COMPLETIONS, f'{{"prompt": [{spelt}]}}'.encode()) if ids else asked
    assert (asked.prompt_tokens, asked.seed) == (nested.prompt_tokens, nested.seed)
    assert asked.prompt_tokens == len(ids)
    assert asked.seed == read_asked(COMPLETIONS, json.dumps({"prompt": ids}).encode()).seed


@given(words=st.lists(st.text(st.characters(categories=["L"]), min_size=1)))
def test_a_text_has_as_many_tokens_as_words_and_one_answer_in_any_spelling(words: list[str]) -> None:
    text = " ".join(words)
    plain, escaped = (
        read_asked(COMPLETIONS, json.dumps({"prompt": text}, ensure_ascii=ascii).encode()) for ascii in (False, True)
    )
    chat = read_asked(CHAT, json.dumps({"messages": [{"content": [{"type": "text", "text": text}]}]}).encode())
    assert plain.prompt_tokens == escaped.prompt_tokens == chat.prompt_tokens == len(words)
    assert plain.seed == escaped.seed == chat.seed


@pytest.mark.parametrize(
    ("arguments", "body", "path", "status", "says"),
    [
        (("--model", "m"), {"model": "other", "prompt": [1]}, COMPLETIONS, 404, "`other` does not exist"),
        (("--api-key", "k"), {"prompt": [1]}, COMPLETIONS, 401, "Unauthorized"),
        # 3 of the prompt and 6 of the answer are 9
        (("--context-limit", "8"), {"prompt": [1, 2, 3], "max_tokens": 6}, COMPLETIONS, 400, "context length is 8"),
        ((), b"{", COMPLETIONS, 400, "truncated"),
        ((), {"prompt": [1], "max_tokens": 0}, COMPLETIONS, 400, "at least 1"),
        ((), {"prompt": [1]}, "/v1/embeddings", 404, "no /v1/embeddings"),
        (("--fail-every", "1", "--status", "503"), {"prompt": [1]}, COMPLETIONS, 503, "fails as told"),
    ],
)
def test_what_is_not_served_is_refused_with_a_reason(
    stub: Start, arguments: tuple[str, ...], body: Any, path: str, status: int, says: str
) -> None:
    caller = stub(*FAST, *arguments)()
    answer = caller.post(body, path)
    assert answer.status == status
    assert says in answer.json["error"]["message"]
    assert caller.posts()[0]["ended"] == ("failed" if status == 503 else "refused")


def test_what_the_limits_allow_is_served(stub: Start) -> None:
    caller = stub(*FAST, "--model", "m", "--api-key", "k", "--context-limit", "8")()
    answer = caller.post({"model": "m", "prompt": [1, 2, 3], "max_tokens": 5}, Authorization="Bearer k")
    assert answer.status == 200
    card = {"id": "m", "object": "model", "owned_by": "testbed stand-in", "max_model_len": 8}
    assert caller.get("/v1/models").json["data"] == [card]
    assert caller.get("/health").status == 200
    assert caller.get("/else").status == 404


def test_a_request_may_come_in_any_pieces_and_with_others_behind_it(stub: Start) -> None:
    caller = stub(*FAST, "--burst")()
    body = b'{"prompt": [1], "max_tokens": 1, "stream": true}'
    message = b"POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    with socket.create_connection(("127.0.0.1", caller.port), timeout=LIMIT_S) as raw:
        for at in range(len(message)):
            raw.sendall(message[at : at + 1])
        raw.sendall(message + message.replace(b"Host: h", b"Connection: close"))
        received = b"".join(iter(lambda: raw.recv(65536), b""))
    assert received.count(b"data: [DONE]") == 3
    assert [post["ended"] for post in caller.posts()] == ["served"] * 3


def test_requests_sent_ahead_are_answered_one_after_the_other(stub: Start) -> None:
    caller = stub("--ttft-ms", "5", "--itl-ms", "5")()
    body = b'{"prompt": [1], "max_tokens": 3, "stream": true}'
    message = b"POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    with socket.create_connection(("127.0.0.1", caller.port), timeout=LIMIT_S) as raw:
        raw.sendall(message + message.replace(b"Host: h", b"Connection: close"))
        received = b"".join(iter(lambda: raw.recv(65536), b""))
    nothing, first, second = received.split(b"HTTP/1.1 200 OK")
    assert nothing == b""
    assert first.count(b"[DONE]") == second.count(b"[DONE]") == 1


def test_what_is_no_http_ends_the_connection(stub: Start) -> None:
    caller = stub(*FAST)()
    with socket.create_connection(("127.0.0.1", caller.port), timeout=LIMIT_S) as raw:
        raw.sendall(b"hello\r\n\r\n")
        assert b"".join(iter(lambda: raw.recv(65536), b"")).startswith(b"HTTP/1.1 400")
