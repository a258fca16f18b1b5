"""What each transfer asks of the two legs: pure functions from body to body."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.errors import SpecError
from testbed.journal.legs import LegName, leg_id, split_leg
from testbed.probe.identity import our_id
from testbed.transfers.handoff import HandoffError, Link, one_token, raw, read_body, several_sequences
from testbed.transfers.mooncake_p2p import engine_id_of
from testbed.transfers.table import HANDOFFS

LINK = Link("t1", "engine-P", "http://127.0.0.1:8998")


def plain(body: Any) -> dict[str, Any]:
    return {key: json.loads(bytes(value)) for key, value in body.items()}


def body_of(**keys: Any) -> Any:
    return {key: raw(value) for key, value in keys.items()}


@pytest.mark.parametrize(
    ("asked", "sent"),
    [
        ({"max_tokens": 50, "min_tokens": 50}, {"max_tokens": 1, "min_tokens": 1}),
        ({"max_completion_tokens": 50}, {"max_tokens": 1, "min_tokens": 1, "max_completion_tokens": 1}),
        ({"max_tokens": 50, "max_completion_tokens": 50, "min_tokens": 2},
         {"max_tokens": 1, "min_tokens": 1, "max_completion_tokens": 1}),
        ({"stream": True, "stream_options": {"include_usage": True}}, {"max_tokens": 1, "min_tokens": 1}),
        ({"n": 2, "best_of": 2, "stop": ["x"], "logprobs": 5, "echo": True}, {"max_tokens": 1, "min_tokens": 1}),
        ({}, {"max_tokens": 1, "min_tokens": 1}),
    ],
)
def test_prefill_is_asked_for_exactly_one_token_in_every_spelling(asked: dict[str, Any], sent: dict[str, Any]) -> None:
    body = one_token(body_of(prompt=[1, 2], temperature=0, ignore_eos=True, **asked))
    assert plain(body) == {"prompt": [1, 2], "temperature": 0, "ignore_eos": True, "stream": False, **sent}


@pytest.mark.parametrize("name", sorted(HANDOFFS))
def test_decode_keeps_all_that_the_client_asked(name: str) -> None:
    asked = {"prompt": [1], "max_tokens": 50, "min_tokens": 50, "stream": True, "n": 1, "logprobs": 2}
    answer = json.dumps({"kv_transfer_params": {"remote_engine_id": "P"}}).encode()
    decode = plain(HANDOFFS[name].decode(body_of(**asked), LINK, answer))
    assert {key: value for key, value in decode.items() if key != "kv_transfer_params"} == asked


def test_parameters_of_the_client_are_not_passed_on() -> None:
    asked = body_of(prompt=[1], kv_transfer_params={"do_remote_prefill": True, "remote_host": "elsewhere"})
    for name in ("mooncake_p2p", "nixl"):
        assert plain(HANDOFFS[name].prefill(asked, LINK))["kv_transfer_params"]["do_remote_prefill"] is False


def test_mooncake_tells_decode_where_and_who_prefill_is_and_prefill_only_the_transfer() -> None:
    handoff = HANDOFFS["mooncake_p2p"]
    to_prefill, to_decode = (
        plain(body)["kv_transfer_params"]
        for body in (handoff.prefill(body_of(prompt=[1]), LINK), handoff.decode(body_of(prompt=[1]), LINK, b""))
    )
    assert to_prefill == {"do_remote_decode": True, "do_remote_prefill": False, "transfer_id": "t1"}
    assert to_decode == {
        "do_remote_decode": False, "do_remote_prefill": True, "transfer_id": "t1",
        "remote_engine_id": "engine-P", "remote_bootstrap_addr": "http://127.0.0.1:8998",
    }


def test_who_decode_is_told_that_prefill_is() -> None:
    answer = json.dumps({"kv_transfer_params": {"remote_engine_id": "by-answer"}}).encode()
    peers = {name: handoff.peer(LINK, answer) for name, handoff in HANDOFFS.items()}
    assert peers == {"mooncake_p2p": "engine-P", "nixl": "by-answer", "tier": None}


@pytest.mark.parametrize("answer", [b"", b"[]", b"{}", b'{"kv_transfer_params": null}'])
def test_an_answer_of_prefill_without_parameters_is_an_error(answer: bytes) -> None:
    with pytest.raises(HandoffError, match="prefill's answer"):
        HANDOFFS["nixl"].decode(body_of(prompt=[1]), LINK, answer)


def test_the_bootstrap_server_says_who_is_there() -> None:
    assert engine_id_of(b'{"0": {"engine_id": "abc", "worker_addr": {"0": {"0": "tcp://h:1"}}}}') == "abc"


@pytest.mark.parametrize("answer", [b"{}", b"x", b'{"0": {}}', b'{"1": {"engine_id": "a"}}'])
def test_a_bootstrap_server_that_does_not_is_an_error(answer: bytes) -> None:
    with pytest.raises(HandoffError, match="bootstrap server"):
        engine_id_of(answer)


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"n": 2}, "n is 2"), ({"best_of": 3}, "best_of is 3"), ({"use_beam_search": True}, "use_beam_search is true"),
        ({"prompt": [[1], [2]]}, "it has 2 prompts"), ({"prompt": ["a", "b", "c"]}, "it has 3 prompts"),
        ({"prompt": [1, 2]}, None), ({"prompt": [[1, 2]]}, None), ({"prompt": ["a"]}, None), ({"prompt": "a"}, None),
        ({"n": 1, "best_of": None}, None), ({"messages": []}, None), ({"prompt": []}, None),
    ],
)
def test_a_request_for_several_sequences_is_seen(asked: dict[str, Any], why: str | None) -> None:
    assert several_sequences(body_of(**asked)) == why


@pytest.mark.parametrize("text", [b"", b"[]", b"null", b'{"a": 1', b"\xff"])
def test_a_body_that_is_no_object_is_refused(text: bytes) -> None:
    with pytest.raises(SpecError, match="not a JSON object"):
        read_body(text)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-10**6, 10**6) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3), max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(["prompt", "seed", "user", "priority", "messages"]), json_values))
def test_what_is_not_about_length_reaches_prefill_as_it_was(asked: dict[str, Any]) -> None:
    sent = plain(one_token(read_body(json.dumps(asked).encode())))
    assert {key: sent[key] for key in asked} == asked


@pytest.mark.parametrize("leg", ["only", "prefill", "decode"])
@pytest.mark.parametrize("own", ["R7.arm.0.42", "20261129-223000-demo.tier.0.7", "x", "R7.only"])
def test_the_id_of_a_leg_gives_request_and_leg_back_out_of_the_engines_own(own: str, leg: LegName) -> None:
    travelling = leg_id(own, leg)
    assert split_leg(travelling) == (own, leg)
    assert split_leg(our_id(f"cmpl-{travelling}-0-89abcdef")) == (own, leg)
