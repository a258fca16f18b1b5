"""What is asked of the server: token ids, text or a chat, and what the plan wants of the answer."""

import json
from typing import Any

import pytest

from testbed.drive.body import body_of, path_of
from testbed.drive.endpoint import Endpoint
from testbed.drive.options import Wording
from tests.drive.conftest import request

ENDPOINT = Endpoint("http://h:1", "m")


def body(wording: Wording | None = None, endpoint: Endpoint = ENDPOINT, **fields: Any) -> dict[str, Any]:
    return dict(json.loads(body_of(request(7, **fields), endpoint, wording)))


def spelt(ids: object) -> str:
    return f"<{ids}>"


def test_token_ids_are_streamed_greedily_with_usage() -> None:
    assert body() == {
        "model": "m", "prompt": [1, 2, 7], "max_tokens": 4, "temperature": 0, "stream": True,
        "stream_options": {"include_usage": True}, "return_token_ids": True,
    }


def test_a_forced_length_is_asked_for() -> None:
    forced = body(stop="forced", max_tokens=9)
    assert (forced["max_tokens"], forced["min_tokens"], forced["ignore_eos"]) == (9, 9, True)
    assert "min_tokens" not in body()


def test_text_and_chat_have_the_same_words_in_their_own_form() -> None:
    assert body(Wording(spelt))["prompt"] == "<(1, 2, 7)>"
    chat = body(Wording(spelt, chat=True))
    assert chat["messages"] == [{"role": "user", "content": "<(1, 2, 7)>"}]
    assert "prompt" not in chat


def test_each_form_has_its_path() -> None:
    assert path_of(None) == path_of(Wording(spelt)) == "/v1/completions"
    assert path_of(Wording(spelt, chat=True)) == "/v1/chat/completions"


@pytest.mark.parametrize(("field", "value"), [("cache_salt", "tenant-a"), ("priority", 3)])
def test_what_the_plan_says_of_sharing_and_priority_is_sent(field: str, value: Any) -> None:
    assert body(**{field: value})[field] == value
    assert field not in body()


def test_extra_fields_are_added_or_left_out() -> None:
    endpoint = Endpoint("http://h:1", "m", extra_body={"return_token_ids": None, "temperature": 1, "top_k": 5})
    found = body(None, endpoint)
    assert (found["temperature"], found["top_k"]) == (1, 5)
    assert "return_token_ids" not in found
