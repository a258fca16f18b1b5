"""Prefill on one engine, decode on another: who is asked what and when, and how the end of one leg ends the other."""

import asyncio
from typing import Any

import pytest

from testbed.journal.events import LegEnded, Note
from tests.router.conftest import Engines, Start, apart, error_of, errors_in, soon
from tests.router.engines import DONE, FakeEngine, Post, hang, three_tokens, token_event

PARAMS = {"do_remote_prefill": True, "remote_engine_id": "engine-P", "remote_block_ids": [[1, 2]], "remote_port": 7}
LIMITS = {"max_tokens": 50, "min_tokens": 50, "stream": True, "stream_options": {"include_usage": True}}


async def prefilled(post: Post) -> None:
    """A prefill engine's answer, with what it found in its own cache."""
    usage = {"prompt_tokens": 8193, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 6144}}
    post.answer({"choices": [{"text": "a"}], "usage": usage, "kv_transfer_params": PARAMS})


async def decoded(post: Post) -> None:
    """A decode engine's stream, with what it received."""
    usage = b'data: {"choices": [], "usage": {"prompt_tokens": 8193, "completion_tokens": 50, ' \
            b'"prompt_tokens_details": {"cached_tokens": 8192}}}\n\n'
    post.stream(token_event("a"), usage, DONE)


async def broken(post: Post) -> None:
    post.answer({"error": {"message": "prefill is out of order"}}, status=500)


def bootstrap_of(identity: str) -> Any:
    async def script(post: Post) -> None:
        assert (post.method, post.path) == ("GET", "/query")
        post.answer({"0": {"engine_id": identity, "worker_addr": {}}})

    return script


async def test_mooncake_asks_both_engines_at_once_and_tells_them_how_to_find_each_other(
    router: Start, engine: Engines
) -> None:
    prefill, decode, bootstrap = await engine(hang), await engine(hang), await engine(bootstrap_of("engine-P"))
    running = await router(*apart(prefill, decode, bootstrap), transfer="mooncake_p2p")
    asking = asyncio.create_task(running.complete({"prompt": [5, 6], **LIMITS}, request_id="R.arm.0.3"))
    to_prefill, to_decode = await prefill.post(1), await decode.post(1)  # decode is there while prefill is silent
    name = to_prefill.body["kv_transfer_params"]["transfer_id"]
    assert name.startswith("R.arm.0.3.")
    assert to_prefill.body == {
        "prompt": [5, 6], "max_tokens": 1, "min_tokens": 1, "stream": False,
        "kv_transfer_params": {"do_remote_decode": True, "do_remote_prefill": False, "transfer_id": name},
    }
    assert to_decode.body == {
        "prompt": [5, 6], **LIMITS,
        "kv_transfer_params": {
            "do_remote_decode": False, "do_remote_prefill": True, "transfer_id": name,
            "remote_engine_id": "engine-P", "remote_bootstrap_addr": bootstrap.url,
        },
    }
    await prefilled(to_prefill)
    await decoded(to_decode)
    assert (await asking).text.endswith(DONE.decode())
    assert to_prefill.headers["x-request-id"] == "R.arm.0.3.prefill"
    assert to_decode.headers["x-request-id"] == "R.arm.0.3.decode"
    assert {one.leg: one.peer for one in running.begun()} == {"prefill": None, "decode": "engine-P"}


async def test_the_usage_of_both_legs_stays_two_figures(router: Start, engine: Engines) -> None:
    running = await router(*apart(await engine(prefilled), await engine(decoded)), transfer="nixl")
    await running.complete()
    await soon(lambda: len(running.legs()) == 2)
    legs = running.legs()
    assert (legs["prefill"].usage_cached_tokens, legs["decode"].usage_cached_tokens) == (6144, 8192)
    assert (legs["prefill"].usage_output_tokens, legs["decode"].usage_output_tokens) == (1, 50)


async def test_nixl_prefills_first_and_hands_its_parameters_on(router: Start, engine: Engines) -> None:
    prefill, decode = await engine(hang), await engine(decoded)
    running = await router(*apart(prefill, decode), transfer="nixl")
    asking = asyncio.create_task(running.complete({"prompt": "x", **LIMITS}))
    post = await prefill.post(1)
    assert post.body["kv_transfer_params"]["do_remote_decode"] is True
    assert (post.body["max_tokens"], post.body["stream"], decode.posts) == (1, False, [])
    await prefilled(post)
    assert (await asking).status_code == 200
    assert decode.posts[0].body == {"prompt": "x", **LIMITS, "kv_transfer_params": PARAMS}
    assert {one.leg: one.peer for one in running.begun()} == {"prefill": None, "decode": "engine-P"}


async def test_a_tier_gets_nothing_handed_on(router: Start, engine: Engines) -> None:
    prefill, decode = await engine(prefilled), await engine(decoded)
    running = await router(*apart(prefill, decode), transfer="tier")
    messages = [{"role": "user", "content": "x"}]
    asked = {"messages": messages, "max_completion_tokens": 50, "min_tokens": 50, "stream": True}
    await running.complete(asked, path="/v1/chat/completions")
    one = {"max_tokens": 1, "max_completion_tokens": 1, "min_tokens": 1, "stream": False}
    assert (prefill.posts[0].path, prefill.posts[0].body) == ("/v1/chat/completions", asked | one)
    assert (decode.posts[0].path, decode.posts[0].body) == ("/v1/chat/completions", asked)


@pytest.mark.parametrize("transfer", ["mooncake_p2p", "nixl", "tier"])
async def test_a_prefill_that_fails_ends_the_request_and_frees_decode(
    router: Start, engine: Engines, transfer: str
) -> None:
    prefill, decode, bootstrap = await engine(broken), await engine(hang), await engine(bootstrap_of("engine-P"))
    running = await router(*apart(prefill, decode, bootstrap), transfer=transfer)
    answer = await running.complete()
    assert answer.status_code == 502
    error = error_of(answer)
    assert (error["type"], error["leg"], error["engine"]) == ("prefill_failed", "prefill", "p0")
    assert (error["reason"], "prefill is out of order" in error["message"]) == ("failed/http_500", True)
    if transfer == "mooncake_p2p":
        await (await decode.post(1)).hung_up()
        assert running.legs()["decode"].reason == "cancelled/other_leg"
    else:
        assert decode.posts == []
    prefill.script, decode.script = prefilled, decoded
    assert (await running.complete()).status_code == 200


async def test_a_decode_that_fails_ends_prefill_too(router: Start, engine: Engines) -> None:
    prefill, decode, bootstrap = await engine(hang), await engine(broken), await engine(bootstrap_of("engine-P"))
    running = await router(*apart(prefill, decode, bootstrap), transfer="mooncake_p2p")
    answer = await running.complete()
    assert (answer.status_code, error_of(answer)["message"]) == (500, "prefill is out of order")  # its own words
    await (await prefill.post(1)).hung_up()
    assert running.legs()["prefill"].reason == "cancelled/other_leg"


async def test_a_prefill_engine_that_is_dead_is_said_at_once_while_decode_would_wait_for_minutes(
    router: Start, engine: Engines
) -> None:
    dead = await FakeEngine(hang).start()
    await dead.stop()
    decode, bootstrap = await engine(hang), await engine(bootstrap_of("engine-P"))
    running = await router(*apart(dead, decode, bootstrap), transfer="mooncake_p2p")
    error = error_of(await running.complete())
    assert (error["type"], error["leg"], error["reason"]) == ("engine_unreachable", "prefill", "failed/connect")
    await soon(lambda: len(running.legs()) == 2)
    assert running.legs()["decode"].reason == "cancelled/other_leg"


async def test_a_prefill_engine_that_does_not_say_who_it_is_fails_the_handoff(router: Start, engine: Engines) -> None:
    prefill, decode, bootstrap = await engine(hang), await engine(hang), await engine(broken)
    running = await router(*apart(prefill, decode, bootstrap), transfer="mooncake_p2p")
    answer = await running.complete()
    assert (answer.status_code, error_of(answer)["type"]) == (502, "handoff_failed")
    assert (prefill.posts, decode.posts) == ([], [])


async def test_a_silent_prefill_is_given_up_at_its_own_deadline(router: Start, engine: Engines) -> None:
    running = await router(*apart(await engine(hang), await engine(decoded)), transfer="nixl", prefill_s=0.1)
    answer = await running.complete()
    assert (answer.status_code, error_of(answer)["type"]) == (504, "engine_silent")
    assert (error_of(answer)["leg"], error_of(answer)["reason"]) == ("prefill", "timed_out/prefill")


async def test_a_prefill_without_parameters_is_no_handoff(router: Start, engine: Engines) -> None:
    async def script(post: Post) -> None:
        post.answer({"choices": [], "kv_transfer_params": None})

    decode = await engine(decoded)
    running = await router(*apart(await engine(script), decode), transfer="nixl")
    answer = await running.complete()
    assert (answer.status_code, error_of(answer)["type"]) == (502, "handoff_failed")
    assert decode.posts == []


async def test_what_the_client_did_wrong_it_hears_in_the_words_of_prefill(router: Start, engine: Engines) -> None:
    async def script(post: Post) -> None:
        post.answer({"error": {"message": "the prompt is too long"}}, status=400)

    running = await router(*apart(await engine(script), await engine(decoded)), transfer="nixl")
    answer = await running.complete()
    assert (answer.status_code, answer.json()) == (400, {"error": {"message": "the prompt is too long"}})


async def test_a_client_that_leaves_is_gone_for_both_engines(router: Start, engine: Engines) -> None:
    prefill, decode, bootstrap = await engine(hang), await engine(hang), await engine(bootstrap_of("engine-P"))
    running = await router(*apart(prefill, decode, bootstrap), transfer="mooncake_p2p")
    asking = asyncio.create_task(running.complete())
    posts = [await prefill.post(1), await decode.post(1)]
    asking.cancel()
    for post in posts:
        await post.hung_up()
    await soon(lambda: len(running.legs()) == 2)
    assert {leg.reason for leg in running.legs().values()} == {"cancelled/client_gone"}
    assert [one.in_flight for one in running.server.house.engines] == [0, 0]


async def test_a_decode_that_stops_within_its_stream_is_a_typed_error_of_that_leg(
    router: Start, engine: Engines
) -> None:
    async def script(post: Post) -> None:
        post.begin_stream()
        post.send(token_event("a"))

    running = await router(*apart(await engine(prefilled), await engine(script)), transfer="nixl", silence_s=0.1)
    [error] = errors_in((await running.complete()).text)
    assert (error["leg"], error["engine"], error["reason"]) == ("decode", "d0", "timed_out/silence")


async def test_a_prefill_engine_started_again_at_its_address_is_known_as_another(
    router: Start, engine: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("testbed.router.peers.MAX_AGE_S", 3600.0)  # it is the connection that tells
    prefill, decode, before = await engine(prefilled), await engine(decoded), await engine(bootstrap_of("old"))
    running = await router(*apart(prefill, decode, before), transfer="mooncake_p2p")
    await running.complete()
    await running.complete()
    assert len(before.posts) == 1  # while its connection is open, it is the same
    await before.stop()
    again = await FakeEngine(bootstrap_of("new")).start(before.port)
    peer = running.server.house.peers["p0"]
    await soon(lambda: not peer.holds())
    await running.complete()
    await again.stop()
    told = [post.body["kv_transfer_params"]["remote_engine_id"] for post in decode.posts]
    assert told == ["old", "old", "new"]
    assert [one.peer for one in running.begun() if one.leg == "decode"] == told
    [note] = running.events(Note)
    assert "another process" in note.text
    assert "new" in note.text


@pytest.mark.parametrize("asked", [{"prompt": "x", "n": 2}, {"prompt": [[1], [2]]}, {"prompt": ["a", "b"]}])
async def test_several_sequences_can_not_be_handed_over(
    router: Start, engine: Engines, asked: dict[str, Any]
) -> None:
    prefill, decode = await engine(prefilled), await engine(decoded)
    running = await router(*apart(prefill, decode), transfer="nixl")
    answer = await running.complete(asked)
    assert (answer.status_code, error_of(answer)["type"]) == (400, "invalid_request")
    assert (prefill.posts, decode.posts) == ([], [])


async def test_a_body_that_is_no_json_is_refused(router: Start, engine: Engines) -> None:
    running = await router(*apart(await engine(prefilled), await engine(decoded)), transfer="tier")
    answer = await running.client.post("/v1/completions", content=b"[1]")
    assert (answer.status_code, error_of(answer)["type"]) == (400, "invalid_request")


async def test_every_leg_has_one_beginning_and_one_end(router: Start, engine: Engines) -> None:
    prefill, decode, bootstrap = await engine(prefilled), await engine(three_tokens), await engine(bootstrap_of("P"))
    running = await router(*apart(prefill, decode, bootstrap), transfer="mooncake_p2p")
    await asyncio.gather(*(running.complete(request_id=f"R.a.0.{number}") for number in range(5)))
    await soon(lambda: len(running.events(LegEnded)) == 10)
    expected = sorted((f"R.a.0.{number}", leg) for number in range(5) for leg in ("prefill", "decode"))
    assert sorted((one.request_id, one.leg) for one in running.begun()) == expected
    assert sorted((one.request_id, one.leg) for one in running.events(LegEnded)) == expected
