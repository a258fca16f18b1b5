"""One engine a request: the answer goes through as it is, event by event, and the client may leave or be slow."""

import asyncio

import httpx
import pytest

from testbed.router.leg import Leg
from tests.router.conftest import Engines, Start, error_of, only, soon
from tests.router.engines import DONE, Post, hang, three_tokens, token_event


async def passes(seconds: float) -> None:
    """What the test is about takes this long."""
    await asyncio.wait({asyncio.get_running_loop().create_future()}, timeout=seconds)


async def test_a_stream_goes_through_unchanged(router: Start, engine: Engines) -> None:
    pieces = [b": hello\n\n", token_event("é"), b"event: x\r\ndata: 1\r\n\r\n", token_event("b") + DONE, b"data: end"]

    async def script(post: Post) -> None:
        post.stream(*pieces)

    running = await router(only(await engine(script)))
    answer = await running.complete()
    assert answer.content == b"".join(pieces)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/event-stream")


async def test_each_event_is_handed_on_before_the_next_one_is_there(router: Start, engine: Engines) -> None:
    seen = asyncio.Semaphore(0)

    async def script(post: Post) -> None:
        post.begin_stream()
        for number in range(3):
            event = token_event(str(number))
            post.send(event[:9])
            post.send(event[9:])
            await seen.acquire()
        post.send(DONE)
        post.end_stream()

    running = await router(only(await engine(script)))
    got: list[bytes] = []
    async with running.client.stream("POST", "/v1/completions", json={"stream": True}) as answer:
        async for piece in answer.aiter_raw():
            got.append(piece)
            seen.release()
    assert got == [token_event("0"), token_event("1"), token_event("2"), DONE]


async def test_a_plain_answer_goes_through_with_its_status_and_headers(router: Start, engine: Engines) -> None:
    async def script(post: Post) -> None:
        post.answer({"error": {"message": "too long"}}, status=400)

    one = await engine(script)
    running = await router(only(one))
    answer = await running.complete({"model": "m", "prompt": "x", "max_tokens": 1})
    assert (answer.status_code, answer.json()) == (400, {"error": {"message": "too long"}})
    assert one.posts[0].body == {"model": "m", "prompt": "x", "max_tokens": 1}
    ended = running.legs()["only"]
    assert (ended.outcome, ended.reason, ended.http_status) == ("failed", "failed/http_400", 400)
    assert ended.error == "too long"


async def test_the_request_id_travels_and_the_leg_is_stamped(router: Start, engine: Engines) -> None:
    usage = b'data: {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 2, ' \
            b'"prompt_tokens_details": {"cached_tokens": 4}}}\n\n'

    async def script(post: Post) -> None:
        post.stream(token_event("a"), token_event("b"), usage, DONE)

    one = await engine(script)
    running = await router(only(one))
    await running.complete(request_id="R7.tier.0.42")
    await soon(lambda: bool(running.legs()))
    assert one.posts[0].headers["x-request-id"] == "R7.tier.0.42"
    [route], [began], ended = running.routes(), running.begun(), running.legs()["only"]
    assert (route.request_id, route.engines, route.policy) == ("R7.tier.0.42", {"only": "e0"}, "least_loaded")
    assert (began.request_id, began.leg, began.engine) == ("R7.tier.0.42", "only", "e0")
    assert (ended.request_id, ended.outcome, ended.reason) == ("R7.tier.0.42", "ok", "")
    assert (ended.usage_prompt_tokens, ended.usage_output_tokens, ended.usage_cached_tokens) == (9, 2, 4)
    assert ended.sent_at_ns is not None
    assert ended.first_byte_at_ns is not None
    assert ended.last_byte_at_ns is not None
    assert ended.began_at_ns <= ended.sent_at_ns <= ended.first_byte_at_ns <= ended.last_byte_at_ns <= ended.at_ns


@pytest.mark.parametrize("given", ["a b", "x" * 201, "é"])
async def test_an_id_that_can_not_travel_is_replaced(router: Start, engine: Engines, given: str) -> None:
    one = await engine(three_tokens)
    running = await router(only(one))
    await running.client.post("/v1/completions", json={"stream": True}, headers={b"X-Request-Id": given.encode()})
    assert one.posts[0].headers["x-request-id"].startswith("router.")


async def test_a_connection_is_used_again(router: Start, engine: Engines) -> None:
    one = await engine(three_tokens)
    running = await router(only(one))
    for number in range(3):
        await running.complete(request_id=f"R.a.0.{number}")
    assert (len(one.posts), len(one.connections)) == (3, 1)


async def test_a_client_that_leaves_is_gone_for_the_engine_too(router: Start, engine: Engines) -> None:
    async def script(post: Post) -> None:
        post.begin_stream()
        post.send(token_event("a"))

    one = await engine(script)
    running = await router(only(one))
    async with running.client.stream("POST", "/v1/completions", json={"stream": True}) as answer:
        assert await anext(answer.aiter_raw()) == token_event("a")
    await one.posts[0].hung_up()
    await soon(lambda: bool(running.legs()))
    ended = running.legs()["only"]
    assert (ended.outcome, ended.reason, ended.pieces) == ("cancelled", "cancelled/client_gone", 1)
    assert running.server.house.in_flight == running.server.house.engines[0].in_flight == 0


async def test_a_client_that_leaves_before_the_first_byte_is_noticed(router: Start, engine: Engines) -> None:
    one = await engine(hang)
    running = await router(only(one))
    asking = asyncio.create_task(running.complete())
    post = await one.post(1)
    asking.cancel()
    await post.hung_up()
    await soon(lambda: running.server.house.answers["client_gone"] == 1)


async def test_a_client_that_leaves_while_the_engine_is_not_yet_reached_ends_the_attempt(
    router: Start, engine: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = await router(only(await engine(hang)))
    reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    monkeypatch.setattr(running.server.house.engines[0].connections, "open", lambda: asyncio.wait_for(reached, 60))
    asking = asyncio.create_task(running.complete())
    await soon(lambda: running.server.house.engines[0].in_flight == 1)
    asking.cancel()
    await soon(reached.cancelled)
    assert running.legs()["only"].reason == "cancelled/client_gone"


async def test_beyond_the_limit_a_request_is_refused_and_later_let_in(router: Start, engine: Engines) -> None:
    one = await engine(hang)
    running = await router(only(one), max_in_flight=2)
    waiting = [asyncio.create_task(running.complete()) for _ in range(2)]
    await one.post(2)
    refused = await running.complete()
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
    assert (error_of(refused)["type"], error_of(refused)["code"]) == ("overloaded", 429)
    for post in one.posts:
        post.stream(DONE)
    assert [(await task).status_code for task in waiting] == [200, 200]
    one.script = three_tokens
    assert (await running.complete()).status_code == 200
    assert len(one.posts) == 3  # the refused one never got there


async def test_a_slow_reader_holds_the_engine_up_and_not_the_memory(router: Start, engine: Engines) -> None:
    """The engine's own transport fills up, since the router reads no more than the client takes."""
    event = b"data: " + b"x" * 100_000 + b"\n\n"
    count = 240  # 24 MB, far beyond what sockets hold

    async def script(post: Post) -> None:
        post.begin_stream()
        for _ in range(count):
            post.send(event)
        post.end_stream()

    one = await engine(script)
    running = await router(only(one), silence_s=0.3)
    reader, writer = await asyncio.open_connection(*running.url.removeprefix("http://").split(":"))
    writer.write(b'POST /v1/completions HTTP/1.1\r\nContent-Length: 16\r\n\r\n{"stream": true}')
    post = await one.post(1)
    paused = running.server.house.engines[0]
    await soon(lambda: paused.in_flight == 1 and post.transport.get_write_buffer_size() > 10e6)
    [leg] = paused.legs
    assert isinstance(leg, Leg)
    read_bytes = -1
    while leg.body_bytes != read_bytes:  # until it stands still for longer than the silence that is allowed
        read_bytes = leg.body_bytes
        await passes(0.4)
    assert read_bytes < count * len(event)
    got = 0
    while got < count * len(event):
        got += len(await asyncio.wait_for(reader.read(2**20), 10))
    await soon(lambda: bool(running.legs()))
    assert running.legs()["only"].outcome == "ok"
    writer.close()


async def test_a_request_for_another_method_or_path_is_refused(router: Start, engine: Engines) -> None:
    running = await router(only(await engine(hang)))
    lost, wrong = await running.client.get("/v2/x"), await running.client.get("/v1/completions")
    assert (lost.status_code, error_of(lost)["type"]) == (404, "not_found")
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "POST")


async def test_clients_of_old_http_are_answered_and_left(router: Start, engine: Engines) -> None:
    running = await router(only(await engine(three_tokens)))
    reader, writer = await asyncio.open_connection(*running.url.removeprefix("http://").split(":"))
    writer.write(b'POST /v1/completions HTTP/1.0\r\nContent-Length: 16\r\n\r\n{"stream": true }')
    answer = await asyncio.wait_for(reader.read(), 10)
    assert answer.endswith(token_event("a") + token_event("b") + token_event("c") + DONE)
    assert b"chunked" not in answer
    writer.close()


async def test_two_requests_in_one_packet_are_answered_in_order(router: Start, engine: Engines) -> None:
    async def script(post: Post) -> None:
        post.answer({"said": post.body["n"]})

    running = await router(only(await engine(script)))
    reader, writer = await asyncio.open_connection(*running.url.removeprefix("http://").split(":"))
    one, two = b'{"n": 1}', b'{"n": 2}'
    head = b"POST /v1/completions HTTP/1.1\r\nContent-Length: 8\r\n\r\n"
    last = b"POST /v1/completions HTTP/1.1\r\nConnection: close\r\nContent-Length: 8\r\n\r\n"
    writer.write(head + one + last + two)
    answer = await asyncio.wait_for(reader.read(), 10)
    assert answer.index(b'{"said": 1}') < answer.index(b'{"said": 2}')
    writer.close()


async def test_what_is_no_http_from_a_client_is_refused(router: Start, engine: Engines) -> None:
    running = await router(only(await engine(hang)))
    reader, writer = await asyncio.open_connection(*running.url.removeprefix("http://").split(":"))
    writer.write(b"hello\r\n\r\n")
    assert (await asyncio.wait_for(reader.read(), 10)).startswith(b"HTTP/1.1 400 ")
    writer.close()


async def test_a_client_that_waits_for_leave_to_send_its_body_gets_it(router: Start, engine: Engines) -> None:
    running = await router(only(await engine(three_tokens)))
    reader, writer = await asyncio.open_connection(*running.url.removeprefix("http://").split(":"))
    writer.write(b"POST /v1/completions HTTP/1.1\r\nContent-Length: 16\r\nExpect: 100-continue\r\n\r\n")
    assert await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10) == b"HTTP/1.1 100 Continue\r\n\r\n"
    writer.write(b'{"stream": true}')
    assert (await asyncio.wait_for(reader.readline(), 10)) == b"HTTP/1.1 200 OK\r\n"
    writer.close()


async def test_a_body_without_measure_is_refused(
    router: Start, engine: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("testbed.router.client.BODY_LIMIT_BYTES", 1000)
    one = await engine(three_tokens)
    running = await router(only(one))
    reader, writer = await asyncio.open_connection(*running.url.removeprefix("http://").split(":"))
    writer.write(b"POST /v1/completions HTTP/1.1\r\nContent-Length: 1001\r\n\r\n" + b"x" * 1001)
    assert (await asyncio.wait_for(reader.read(), 10)).startswith(b"HTTP/1.1 413 ")
    assert one.posts == []
    writer.close()


async def test_a_router_that_is_stopped_breaks_off_and_says_so_in_the_journal(router: Start, engine: Engines) -> None:
    one = await engine(hang)
    running = await router(only(one))
    asking = asyncio.create_task(running.complete())
    post = await one.post(1)
    await running.server.stop()
    await post.hung_up()
    with pytest.raises(httpx.HTTPError):
        await asking
    assert running.legs()["only"].reason == "cancelled/router_stopped"
