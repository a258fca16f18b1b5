"""Addresses and plain questions: one answer, or an error in the words of the server."""

import pytest

from testbed.clock import now_ns
from testbed.drive.endpoint import Endpoint, ask
from testbed.errors import RunError, SpecError
from testbed.stub.process import running_stub
from testbed.stub.server import answer_tokens


def test_an_id_that_would_break_the_header_is_refused() -> None:
    with pytest.raises(RunError, match="X-Request-Id"):
        Endpoint("http://127.0.0.1:1", "m").message("/v1/completions", b"", "a\r\nb: c")


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "https://h:1", "http://h:1/v1", "http://"])
def test_an_address_that_can_not_be_sent_to_is_refused(url: str) -> None:
    with pytest.raises(SpecError, match="not an address"):
        Endpoint(url, "m")


def test_ask_returns_the_whole_answer() -> None:
    with running_stub() as stub:
        answer = ask(Endpoint(stub.base_url, "stub"), {"prompt": [1, 2], "max_tokens": 3}, request_id="g", timeout_s=5)
    assert answer["choices"][0]["token_ids"] == answer_tokens([1, 2], 3)


def test_ask_raises_with_the_words_of_the_server() -> None:
    with running_stub("--fail-every", "1") as stub, pytest.raises(RunError, match=r"status 500.*fails as told"):
        ask(Endpoint(stub.base_url, "stub"), {"prompt": [1], "max_tokens": 1}, request_id="g", timeout_s=5)


def test_ask_gives_up_after_its_time() -> None:
    with running_stub("--hang-every", "1") as stub:
        began_ns = now_ns()
        with pytest.raises(RunError, match="no answer to g"):
            ask(Endpoint(stub.base_url, "stub"), {"prompt": [1], "max_tokens": 1}, request_id="g", timeout_s=0.2)
        assert now_ns() - began_ns < 10e9
