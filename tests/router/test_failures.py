"""What breaks on the way to one engine: each is said, in time, by its name, and holds up nobody else."""

import asyncio

import pytest

from testbed.clock import now_ns
from testbed.spec.routing import EngineAt
from tests.router.conftest import Engines, Start, error_of, errors_in, only, soon
from tests.router.engines import DONE, FakeEngine, Post, hang, three_tokens, token_event


async def passes(seconds: float) -> None:
    """What the test is about takes this long."""
    await asyncio.wait({asyncio.get_running_loop().create_future()}, timeout=seconds)


LATE_S = 5.0
"""So long a busy machine may hold up this process; what is tested for would take far longer, or never come."""


async def test_an_engine_that_accepts_and_says_nothing_holds_up_none_of_the_others(
    router: Start, engine: Engines
) -> None:
    good, mute = await engine(three_tokens), await engine(hang)
    running = await router(only(good, "good"), only(mute, "mute"), policy="round_robin", first_byte_s=60.0)
    asking = {asyncio.create_task(running.complete(request_id=f"R.a.0.{number}")) for number in range(20)}
    await soon(lambda: sum(task.done() for task in asking) == 10)
    assert {task.result().status_code for task in asking if task.done()} == {200}
    assert running.server.house.in_flight == 10  # the other half still waits for its deadline
    for task in asking:
        task.cancel()
    await asyncio.wait(asking)


async def test_an_engine_that_accepts_and_says_nothing_is_given_up_at_the_deadline(
    router: Start, engine: Engines
) -> None:
    mute = await engine(hang)
    running = await router(only(mute), first_byte_s=0.1)
    began_ns = now_ns()
    answers = await asyncio.gather(*(running.complete() for _ in range(10)))
    assert 0.1 <= (now_ns() - began_ns) / 1e9 < 0.1 + LATE_S
    assert {answer.status_code for answer in answers} == {504}
    assert {error_of(answer)["reason"] for answer in answers} == {"timed_out/first_byte"}
    await mute.posts[9].hung_up()


async def test_nobody_at_the_address_is_said_at_once_and_passed_over_for_a_while(
    router: Start, engine: Engines
) -> None:
    dead = await FakeEngine(hang).start()
    await dead.stop()
    running = await router(
        EngineAt(name="dead", url=dead.url), only(await engine(three_tokens), "good"),
        policy="round_robin", avoid_after_failure_s=60.0,
    )
    first = await running.complete()
    assert first.status_code == 502
    assert (error_of(first)["type"], error_of(first)["engine"]) == ("engine_unreachable", "dead")
    assert error_of(first)["reason"] == "failed/connect"
    assert [(await running.complete()).status_code for _ in range(4)] == [200] * 4
    assert [route.avoided for route in running.routes()] == [[], ["dead"], ["dead"], ["dead"], ["dead"]]


async def test_an_engine_that_answers_an_error_or_was_left_by_its_client_is_not_passed_over(
    router: Start, engine: Engines
) -> None:
    async def script(post: Post) -> None:
        post.answer({"error": "no"}, status=500)

    failing, mute = await engine(script), await engine(hang)
    running = await router(
        only(failing, "failing"), only(mute, "mute"), policy="round_robin", avoid_after_failure_s=60.0
    )
    assert (await running.complete()).status_code == 500
    asking = asyncio.create_task(running.complete())
    post = await mute.post(1)
    asking.cancel()
    await post.hung_up()
    assert (await running.complete()).status_code == 500
    assert [route.avoided for route in running.routes()] == [[], [], []]


async def test_an_engine_that_hangs_up_is_asked_once_and_not_again(router: Start, engine: Engines) -> None:
    async def script(post: Post) -> None:
        post.transport.close()

    one, other = await engine(script), await engine(script)
    running = await router(only(one, "a"), only(other, "b"))
    answer = await running.complete()
    assert (answer.status_code, error_of(answer)["type"]) == (502, "engine_broke_off")
    assert len(one.posts) + len(other.posts) == 1
    assert len(running.begun()) == 1


async def test_a_stream_that_is_cut_ends_with_a_typed_error_after_the_last_whole_event(
    router: Start, engine: Engines
) -> None:
    async def script(post: Post) -> None:
        post.begin_stream()
        post.send(token_event("a") + token_event("b")[:20])
        post.transport.close()

    running = await router(only(await engine(script)))
    answer = await running.complete()
    assert answer.text.startswith(token_event("a").decode() + 'data: {"error":')
    assert answer.text.endswith(DONE.decode())
    [error] = errors_in(answer.text)
    assert (error["type"], error["reason"], error["code"]) == ("engine_broke_off", "failed/closed", 502)


async def test_silence_within_a_stream_is_a_typed_error(router: Start, engine: Engines) -> None:
    async def script(post: Post) -> None:
        post.begin_stream()
        post.send(token_event("a"))

    one = await engine(script)
    running = await router(only(one), connect_s=60.0, first_byte_s=60.0, silence_s=0.1)
    answer = await running.complete()
    [error] = errors_in(answer.text)
    assert (error["type"], error["reason"], error["engine"]) == ("engine_silent", "timed_out/silence", "e0")
    await one.posts[0].hung_up()


async def test_a_steady_stream_may_last_longer_than_the_silence_that_is_allowed(
    router: Start, engine: Engines
) -> None:
    async def script(post: Post) -> None:
        post.begin_stream()
        for _ in range(8):
            post.send(token_event("a"))
            await passes(0.08)
        post.send(DONE)
        post.end_stream()

    running = await router(only(await engine(script)), silence_s=0.5)  # the stream lasts 0.64 s
    answer = await running.complete()
    assert answer.text.endswith(DONE.decode())
    assert errors_in(answer.text) == []


async def test_a_busy_engine_that_answers_a_plain_question_is_left_to_its_work(
    router: Start, engine: Engines
) -> None:
    async def script(post: Post) -> None:
        if post.path == "/health":
            post.answer({})

    one = await engine(script)
    running = await router(only(one), alive_s=0.25)
    asking = asyncio.create_task(running.complete())
    busy, question = await one.post(1), await one.post(2)
    assert question.path == "/health"
    await passes(0.3)
    busy.stream(DONE)
    assert (await asking).status_code == 200


async def test_an_engine_that_answers_nothing_at_all_is_given_up_with_all_that_waits(
    router: Start, engine: Engines
) -> None:
    running = await router(only(await engine(hang)), alive_s=0.05)
    answers = await asyncio.gather(*(running.complete() for _ in range(3)))
    assert [(one.status_code, error_of(one)["reason"]) for one in answers] == [(504, "timed_out/not_alive")] * 3


@pytest.mark.parametrize("stream", [True, False])
async def test_all_together_has_a_deadline_too(router: Start, engine: Engines, stream: bool) -> None:
    running = await router(only(await engine(hang)), connect_s=60.0, total_s=0.1)
    answer = await running.complete({"prompt": "x", "stream": stream})
    assert (answer.status_code, error_of(answer)["reason"]) == (504, "timed_out/total")


async def test_an_answer_that_is_not_streamed_may_take_longer_than_the_first_byte(
    router: Start, engine: Engines
) -> None:
    async def script(post: Post) -> None:
        await passes(0.2)
        post.answer({"choices": []})

    running = await router(only(await engine(script)), first_byte_s=0.05)
    assert (await running.complete({"prompt": "x", "stream": False})).status_code == 200


async def test_an_engine_started_again_at_its_port_is_reached_and_the_old_connection_is_not_used(
    router: Start, engine: Engines
) -> None:
    before = await engine(three_tokens)
    running = await router(only(before))
    await running.complete()
    await before.stop()
    again = await FakeEngine(three_tokens).start(before.port)
    await soon(lambda: not running.server.house.engines[0].connections.has_open())
    assert (await running.complete()).status_code == 200
    assert (len(before.posts), len(again.posts)) == (1, 1)
    await again.stop()


async def test_an_error_in_the_stream_is_handed_on_and_the_leg_is_a_failure(router: Start, engine: Engines) -> None:
    said = b'data: {"error": {"message": "KV load failed", "code": 500}}\n\n'

    async def script(post: Post) -> None:
        post.stream(token_event("a"), said, DONE)

    running = await router(only(await engine(script)))
    assert (await running.complete()).content == token_event("a") + said + DONE
    ended = running.legs()["only"]
    assert (ended.outcome, ended.reason, ended.error) == ("failed", "failed/error_in_stream", "KV load failed")


async def test_what_is_no_http_is_an_error_of_the_engine(router: Start, engine: Engines) -> None:
    async def script(post: Post) -> None:
        post.transport.write(b"SMTP ready\r\n\r\n")

    running = await router(only(await engine(script)))
    answer = await running.complete()
    assert (answer.status_code, error_of(answer)["reason"]) == (502, "failed/bad_http")
