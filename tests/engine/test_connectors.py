"""Each connector on real engines: KV really travels, answers are golden, and the probe tells all of it.

One start of engines per connector, and one connector at a time.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from testbed.clock import wait_for
from testbed.engines.child import end_group
from testbed.journal.events import FaultApplied, KvAborted, KvLoadBegan, KvLoadEnded, KvLookup, KvSaved, Note
from testbed.probe.orders import Aim
from tests.engine.by_hand import Wanted, engines
from tests.engine.connectors import (
    ANSWER_TOKENS,
    BLOCK_BYTES,
    GIVE_UP_S,
    PAIRS,
    PROMPT_TOKENS,
    PROMPTS,
    TIERS,
    WHOLE,
    Golden,
    Pair,
    Stored,
)

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def golden(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Golden:
    """The answers of an engine without a connector."""
    with engines(tiny_model, tmp_path_factory.mktemp("golden"), [Wanted("plain")]) as [plain]:
        return {seed: plain.ask(prompt, ANSWER_TOKENS, f"golden.{seed}") for seed, prompt in PROMPTS.items()}


# ---------------------------------------------------------------- a store behind one engine


@pytest.fixture(scope="module")
def stored(
    request: pytest.FixtureRequest, tiny_model: Path, golden: Golden,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Stored]:
    """An engine with one of the tiers; one at a time."""
    with TIERS[request.param](tiny_model, golden, tmp_path_factory.mktemp(request.param)) as made:
        yield made


each_tier = pytest.mark.parametrize("stored", sorted(TIERS), indirect=True)
the_store = pytest.mark.parametrize("stored", ["mooncake_store"], indirect=True)


@each_tier
def test_what_one_request_saved_the_next_one_loads_and_answers_right(stored: Stored) -> None:
    stored.save(0)
    [miss] = stored.engine.events(KvLookup, "save.0")
    assert (miss.promised_tokens, miss.local_tokens) == (0, 0)
    assert stored.engine.events(KvLoadEnded, "save.0") == []
    load = stored.load(0, "hit.0")
    [hit] = stored.engine.events(KvLookup, "hit.0")
    assert (hit.promised_tokens, hit.is_async, hit.reason) == (stored.whole, stored.is_async, "")
    # ten blocks of 32 tokens of 2 x 8 x 4 x 64 values of 4 bytes
    assert (load.ok, load.blocks, load.load_bytes) == (True, 10, 10 * BLOCK_BYTES)
    assert load.transfer_s is not None
    assert load.transfer_s > 0
    # ten tokens behind the whole blocks, and one step for each token of the answer but the first
    assert stored.engine.computed("hit.0") == 10 + ANSWER_TOKENS - 1


@each_tier
def test_one_and_two_tokens_are_one_and_two_tokens(stored: Stored) -> None:
    stored.save(1)
    for tokens in (1, 2):
        assert stored.engine.ask(PROMPTS[1], tokens, f"short.{tokens}") == stored.golden[1][:tokens]
        assert stored.engine.one(KvLoadEnded, f"short.{tokens}").ok
        stored.engine.forget()


@each_tier
def test_a_held_request_loads_afterwards(stored: Stored) -> None:
    stored.save(2)
    stored.engine.arm(Aim(fault="hold-0", action="hold", seconds=0.5, nth=1, requests=["held.2"]))
    assert stored.load(2, "held.2").ok
    began, ended = stored.engine.events(FaultApplied, "held.2")
    assert (began.phase, ended.phase) == ("began", "ended")
    assert ended.held_s is not None
    assert ended.held_s >= 0.5


@each_tier
def test_a_load_beyond_its_deadline_is_given_up_and_its_tokens_are_computed(stored: Stored) -> None:
    stored.save(3)
    stored.engine.channel.guard(attempts=1, load_deadline_s=1.0)
    stored.engine.arm(Aim(fault="slow-0", action="slow", seconds=5.0, nth=1, requests=["late.3"]))
    load = stored.load(3, "late.3")
    stored.engine.channel.guard(attempts=1, load_deadline_s=20.0)
    assert (load.ok, load.reason, load.failed_blocks) == (False, "deadline", 10)
    again = [one for one in stored.engine.events(KvLookup, "late.3") if one.attempt > 1]
    assert all((one.promised_tokens, one.reason) == (0, "attempts") for one in again)
    assert stored.engine.computed("late.3") >= PROMPT_TOKENS + ANSWER_TOKENS - 1


@the_store
def test_a_real_failure_of_the_store_is_recomputed_and_not_loaded_again(stored: Stored) -> None:
    """Its objects are removed while the request is held; without the guard it would be promised them for ever."""
    stored.save(4)
    stored.engine.arm(
        Aim(fault="hold-1", action="hold", seconds=10.0, nth=1, requests=["gone.4"], await_release=True)
    )
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(stored.engine.ask, PROMPTS[4], ANSWER_TOKENS, "gone.4")
        stored.engine.one(FaultApplied, "gone.4")
        deleted = stored.tier.delete_prompt(PROMPTS[4])
        stored.engine.channel.disarm("hold-1")
        assert answer.result(60) == stored.golden[4]
    assert (deleted.deleted, deleted.skipped) == (10, 0)
    failed = [one for one in stored.engine.events(KvLoadEnded, "gone.4") if not one.ok]
    assert [(one.reason, one.failed_blocks) for one in failed] == [("load_error", 10)]
    lookups = stored.engine.events(KvLookup, "gone.4")
    assert [(one.attempt, one.promised_tokens) for one in lookups] == [(1, WHOLE), (2, 0)]


@the_store
def test_the_store_tells_of_saves_and_of_what_it_holds(stored: Stored) -> None:
    stored.tier.clear_memory()
    assert stored.tier.keys() == []
    stored.save(5)
    assert sorted(stored.tier.keys()) == sorted(stored.tier.keys_of(PROMPTS[5]))
    assert stored.engine.events(KvSaved, "save.5") != []
    stored.save(6)
    assert stored.tier.delete_prompt(PROMPTS[5]).deleted == 10
    assert stored.tier.delete_prompt(PROMPTS[5]).deleted == 0
    assert sorted(stored.tier.keys()) == sorted(stored.tier.keys_of(PROMPTS[6]))
    assert stored.tier.counters()["objects"] == 10


@the_store
def test_a_client_that_leaves_during_a_load_frees_its_blocks(stored: Stored) -> None:
    stored.save(7)
    stored.engine.arm(Aim(fault="slow-1", action="slow", seconds=3.0, nth=1, requests=["left.7"]))
    body = {"model": "tiny", "prompt": list(PROMPTS[7]), "max_tokens": 4, "temperature": 0}
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(
            f"{stored.engine.api.url}/v1/completions", json=body, headers={"X-Request-Id": "left.7"}, timeout=1.0,
            trust_env=False,
        )
    assert stored.engine.one(KvAborted, "left.7").stage == "load"
    wait_for(
        lambda: stored.engine.api.gauges()["kv_usage_ratio"] == 0, limit_s=20, what="the blocks to be free", every_s=0.2
    )
    stored.engine.forget()
    assert stored.load(7, "after.7").ok


# ---------------------------------------------------------------- from prefill to decode


@pytest.fixture(scope="module")
def pair(
    request: pytest.FixtureRequest, tiny_model: Path, golden: Golden,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Pair]:
    """One of the pairs; one at a time."""
    with PAIRS[request.param](tiny_model, golden, tmp_path_factory.mktemp(request.param)) as made:
        yield made


# A pull of NIXL's may stall for half a minute, now and then: too long for the tests of each day.
NIXL = pytest.param("nixl", marks=pytest.mark.engine_all)
each_transfer = pytest.mark.parametrize("pair", ["mooncake_p2p", NIXL], indirect=True)
with_a_tier = pytest.mark.parametrize(
    "pair", [pytest.param("nixl_lmcache", marks=pytest.mark.engine_all)], indirect=True
)


@each_transfer
def test_decode_takes_the_whole_prompt_from_prefill_and_computes_one_token(pair: Pair) -> None:
    assert pair.ask(0, ANSWER_TOKENS, "travel") == pair.golden[0]
    [lookup] = pair.decode.events(KvLookup, "travel.decode")
    # not rounded to blocks: all of the prompt is promised
    assert (lookup.promised_tokens, lookup.is_async) == (PROMPT_TOKENS, True)
    load = pair.decode.one(KvLoadEnded, "travel.decode")
    # ten whole blocks and one that is not full
    assert (load.ok, load.blocks, load.load_bytes) == (True, 11, 11 * BLOCK_BYTES)
    # the last token of the prompt, and one for each token of the answer but the first
    assert pair.decode.computed("travel.decode") == 1 + ANSWER_TOKENS - 1
    assert pair.prefill.computed("travel.prefill") == PROMPT_TOKENS
    assert pair.prefill.one(KvSaved, "travel.prefill")
    assert pair.prefill.events(KvLoadEnded, "travel.prefill") == []


@each_transfer
def test_a_pair_gives_one_and_two_tokens(pair: Pair) -> None:
    for tokens in (1, 2):
        assert pair.ask(1, tokens, f"short{tokens}") == pair.golden[1][:tokens]
        pair.decode.forget()


@each_transfer
def test_a_request_held_on_decode_loads_afterwards(pair: Pair) -> None:
    pair.decode.arm(Aim(fault="hold-0", action="hold", seconds=0.5, nth=1, requests=["held.decode"]))
    assert pair.ask(2, ANSWER_TOKENS, "held") == pair.golden[2]
    assert pair.decode.one(KvLoadEnded, "held.decode").ok
    assert len(pair.decode.events(FaultApplied, "held.decode")) == 2


@each_transfer
def test_a_transfer_that_is_given_up_is_computed_by_decode(pair: Pair) -> None:
    pair.decode.channel.guard(attempts=1, load_deadline_s=2.0)
    pair.decode.arm(Aim(fault="slow-0", action="slow", seconds=8.0, nth=1, requests=["late.decode"]))
    assert pair.ask(3, ANSWER_TOKENS, "late") == pair.golden[3]
    pair.decode.channel.guard(attempts=1, load_deadline_s=20.0)
    load = pair.decode.one(KvLoadEnded, "late.decode")
    assert (load.ok, load.reason, load.failed_blocks) == (False, "deadline", 11)
    assert pair.decode.computed("late.decode") >= PROMPT_TOKENS + ANSWER_TOKENS - 1


@each_transfer
def test_what_was_switched_to_run_on_a_cpu_is_in_the_journal(pair: Pair) -> None:
    said = [one.text for engine in (pair.prefill, pair.decode) for one in engine.events(Note)]
    assert any("switch: " in text for text in said)


@pytest.mark.parametrize("pair", ["mooncake_p2p"], indirect=True)
def test_decode_computes_by_itself_when_prefill_has_died_and_its_limit_has_passed(pair: Pair) -> None:
    """Others are served meanwhile. The last test of this pair."""
    link = pair.link("dead")
    end_group(pair.prefill.process)
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(pair.ask_decode, 4, ANSWER_TOKENS, "dead", link)
        pair.decode.one(KvLoadBegan, "dead.decode")
        assert pair.decode.ask(PROMPTS[5], ANSWER_TOKENS, "other") == pair.golden[5]
        assert not answer.done()
        assert answer.result(60) == pair.golden[4]
    load = pair.decode.one(KvLoadEnded, "dead.decode")
    assert (load.ok, load.failed_blocks) == (False, 11)
    assert load.began_at_ns is not None
    assert load.transfer_ended_at_ns is not None
    # as long as the engines were told; other work on this machine may make it later
    assert GIVE_UP_S - 1 <= (load.transfer_ended_at_ns - load.began_at_ns) / 1e9 <= GIVE_UP_S + 15


@with_a_tier
def test_with_a_tier_beside_it_the_transfer_goes_first(pair: Pair) -> None:
    assert pair.ask(0, ANSWER_TOKENS, "travel") == pair.golden[0]
    load = pair.decode.one(KvLoadEnded, "travel.decode")
    assert (load.ok, load.path, load.blocks) == (True, "loopback_tcp", 11)
    assert pair.decode.computed("travel.decode") == 1 + ANSWER_TOKENS - 1


@with_a_tier
def test_what_prefill_saved_to_the_tier_decode_loads_for_a_plain_request(pair: Pair) -> None:
    assert pair.prefill.ask(PROMPTS[8], ANSWER_TOKENS, "save.8") == pair.golden[8]
    assert pair.prefill.one(KvSaved, "save.8")
    assert pair.decode.ask(PROMPTS[8], ANSWER_TOKENS, "plain.8") == pair.golden[8]
    load = pair.decode.one(KvLoadEnded, "plain.8")
    assert (load.ok, load.path, load.blocks) == (True, "shared_memory_copy", 10)
