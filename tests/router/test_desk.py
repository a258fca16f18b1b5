"""What the router answers itself: models, health that does work, its counts, and where the journal is."""

import asyncio
from pathlib import Path

from testbed.journal.events import LegEnded
from testbed.journal.reader import load_journal
from testbed.spec.routing import EngineAt
from tests.router.conftest import Engines, Start, apart, error_of, only, soon
from tests.router.engines import FakeEngine, Post, hang, three_tokens


async def one_token(post: Post) -> None:
    post.answer({"choices": [{"text": "a"}]})


async def test_models_are_those_of_an_engine(router: Start, engine: Engines) -> None:
    async def script(post: Post) -> None:
        post.answer({"data": [{"id": "m"}]})

    one = await engine(script)
    running = await router(only(one))
    answer = await running.client.get("/v1/models")
    assert (answer.status_code, answer.json()) == (200, {"data": [{"id": "m"}]})
    assert (one.posts[0].method, one.posts[0].path) == ("GET", "/v1/models")


async def test_models_of_a_dead_engine_are_an_error(router: Start, engine: Engines) -> None:
    dead = await FakeEngine(hang).start()
    await dead.stop()
    running = await router(only(dead))
    answer = await running.client.get("/v1/models")
    assert (answer.status_code, error_of(answer)["type"]) == (502, "engine_unreachable")


async def test_health_asks_every_engine_for_a_token(router: Start, engine: Engines) -> None:
    prefill, decode = await engine(one_token), await engine(one_token)
    running = await router(*apart(prefill, decode), transfer="tier")
    answer = await running.client.get("/health")
    assert (answer.status_code, answer.json()["status"]) == (200, "ok")
    for one in (prefill, decode):
        [post] = one.posts
        assert (post.path, post.body["max_tokens"], post.body["model"]) == ("/v1/completions", 1, "m")
        assert post.headers["x-request-id"].startswith("health.")
    assert running.events(LegEnded) == []  # no request of a run


async def test_health_names_the_engine_that_does_not_work_although_it_accepts(router: Start, engine: Engines) -> None:
    running = await router(only(await engine(one_token), "good"), only(await engine(hang), "frozen"), health_s=0.3)
    answer = await running.client.get("/health")
    said = answer.json()
    assert (answer.status_code, said["status"]) == (503, "failing")
    assert (said["engines"]["good"]["ok"], said["engines"]["frozen"]["ok"]) == (True, False)
    assert "timed_out/health" in said["engines"]["frozen"]["reason"]
    assert said["engines"]["frozen"]["answered_s"] is None


async def test_the_counts_tell_requests_legs_and_what_is_in_flight(router: Start, engine: Engines) -> None:
    one = await engine(three_tokens)
    running = await router(only(one), max_in_flight=1)
    await running.complete()
    one.script = hang
    asking = asyncio.create_task(running.complete())
    await one.post(2)
    await running.complete()
    page = (await running.client.get("/metrics")).text
    for line in (
        "testbed_router_in_flight 1", "testbed_router_max_in_flight 1", "testbed_router_journal_broken 0",
        'testbed_router_requests_total{answer="200"} 1', 'testbed_router_requests_total{answer="rejected"} 1',
        'testbed_router_engine_in_flight{engine="e0"} 1',
        'testbed_router_legs_total{engine="e0",leg="only",ending="ok"} 1',
    ):
        assert line in page.splitlines()
    asking.cancel()
    await asyncio.wait({asking})


async def test_the_journal_moves_with_the_run(router: Start, engine: Engines, tmp_path: Path) -> None:
    running = await router(only(await engine(three_tokens)))
    await running.complete(request_id="R1.a.0.1")
    order = {"folder": str(tmp_path / "second" / "events"), "arm": "held", "repetition": 2}
    assert (await running.client.post("/control/journal", json=order)).status_code == 200
    await running.complete(request_id="R2.held.2.1")
    await soon(lambda: running.server.house.in_flight == 0)
    running.server.house.record.settle()
    [first], [second] = running.events(LegEnded), load_journal(tmp_path / "second").select(LegEnded)
    assert (first.request_id, first.arm) == ("R1.a.0.1", "")
    assert (second.request_id, second.arm, second.repetition) == ("R2.held.2.1", "held", 2)


async def test_a_journal_that_can_not_be_is_refused_and_the_old_one_stays(
    router: Start, engine: Engines, tmp_path: Path
) -> None:
    running = await router(only(await engine(three_tokens)))
    (tmp_path / "file").write_text("")
    for order in ({"folder": str(tmp_path / "file" / "events")}, {"arm": "x"}):
        assert (await running.client.post("/control/journal", json=order)).status_code == 400
    await running.complete()
    await soon(lambda: len(running.legs()) == 1)


async def test_a_full_disk_stops_the_journal_and_not_the_traffic(router: Start, engine: Engines) -> None:
    running = await router(only(await engine(three_tokens)))
    writer = running.server.house.record._writer
    assert writer is not None

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    writer.append = full  # type: ignore[method-assign]
    for _ in range(2):
        assert (await running.complete()).status_code == 200
        running.server.house.record.settle()
    assert "testbed_router_journal_broken 1" in (await running.client.get("/metrics")).text


async def test_prefix_affinity_keeps_a_prompt_on_its_engine(router: Start, engine: Engines) -> None:
    engines = [await engine(three_tokens) for _ in range(2)]
    running = await router(*(only(one, f"e{number}") for number, one in enumerate(engines)), policy="prefix_affinity")
    asked = [{"prompt": [number, *range(2000)], "stream": True} for number in range(2)]
    for body in asked * 3:
        await running.complete(body)
    assert [{post.body["prompt"][0] for post in one.posts} for one in engines] == [{0}, {1}]


async def test_what_a_broken_leg_would_have_computed_is_no_longer_waited_for(router: Start, engine: Engines) -> None:
    async def script(post: Post) -> None:
        post.transport.close()

    at = EngineAt(name="e0", url=(await engine(script)).url)
    running = await router(at, policy="cost", prefill_tokens_per_s=1000.0)
    await running.complete({"prompt": list(range(500)), "stream": True})
    assert running.server.house.engines[0].waiting_tokens == 0


async def test_what_the_cost_policy_predicted_stands_beside_what_came(router: Start, engine: Engines) -> None:
    at = EngineAt(name="e0", url=(await engine(three_tokens)).url)
    running = await router(at, policy="cost", prefill_tokens_per_s=1000.0)
    await running.complete({"prompt": list(range(500)), "stream": True})
    await soon(lambda: len(running.legs()) == 1)
    [route] = running.routes()
    assert route.scores == {"e0": 0.5}  # 500 tokens at 1,000 a second, nothing known, nobody before it
    ended = running.legs()["only"]
    assert ended.first_byte_at_ns is not None
    assert ended.first_byte_at_ns > ended.began_at_ns
    assert running.server.house.engines[0].waiting_tokens == 0
