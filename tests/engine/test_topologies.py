"""Each topology comes up, hands KV over where it must, answers as a plain engine does, and leaves nothing behind.

Seven deployments take too long for the tests of each day; `test_connectors.py` has a pair of each product among those.
"""

from pathlib import Path
from typing import Any

import pytest

from testbed.journal.events import KvLoadEnded, LegBegan
from tests.engine.standing import Stand, answer, prompts, standing

pytestmark = [pytest.mark.engine_all, pytest.mark.timeout(900)]
SMALL_LMCACHE = {"tier__memory": "512MiB"}

Golden = list[list[int]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of all deployments of this file; short, for sockets are named below it."""
    return tmp_path_factory.mktemp("topologies")


@pytest.fixture(scope="module")
def golden(tiny_model: Path, folder: Path) -> Golden:
    """What one engine answers that has no tier and cuts no prefill."""
    with standing("colocated", tiny_model, folder, tier__kind="none") as stand:
        return [answer(stand.live.engine, one, f"golden.plain.0.{n}") for n, one in enumerate(prompts(stand.tokens))]


def all_right(stand: Stand, golden: Golden, name: str) -> None:
    """The same answers through the front, and as long as was asked."""
    asked = prompts(stand.tokens)
    assert [answer(stand.live.front, one, f"{name}.front.0.{n}") for n, one in enumerate(asked)] == golden
    for length in (1, 2):
        found = answer(stand.live.front, asked[0], f"{name}.length.0.{length}", max_tokens=length)
        assert found == golden[0][:length]


def loads(stand: Stand, part: str) -> list[KvLoadEnded]:
    """Loads that went well and moved bytes, of requests with `part` in their id."""
    found = stand.journal().select(KvLoadEnded)
    return [one for one in found if one.ok and one.load_bytes > 0 and part in one.request_id]


def loaded_tokens(engine: Any) -> int:
    return int(engine.gauges()["loaded_tokens"])


def test_prefills_cut_in_pieces_give_the_same_answers(tiny_model: Path, folder: Path, golden: Golden) -> None:
    with standing("chunked_prefill", tiny_model, folder) as stand:
        # the longest prompt has 1,200 tokens: three steps of at most 512
        assert stand.live.engine.settings()["budget"] == 512
        all_right(stand, golden, "chunked")


def test_replicas_share_a_tier_and_the_router_uses_both(tiny_model: Path, folder: Path, golden: Golden) -> None:
    with standing("colocated_replicas", tiny_model, folder, **SMALL_LMCACHE) as stand:
        all_right(stand, golden, "replicas")
        assert {one.engine for one in stand.journal().select(LegBegan)} == {"engine-0", "engine-1"}
        first, second = stand.live.engines
        prompt = stand.tokens[9000:9400]
        right = answer(first, prompt, "replicas.first.0.0")
        assert stand.live.await_saved() == 0
        before = loaded_tokens(second)
        assert answer(second, prompt, "replicas.second.0.0") == right
        # 400 tokens have six whole blocks of 64, which the other engine has computed
        assert loaded_tokens(second) - before == 384
        assert loads(stand, "replicas.second.0.0")
        assert stand.live.deployment is not None
        stand.live.deployment.restart("router")
        assert answer(stand.live.front, prompt, "replicas.third.0.0") == right


def handed_over(stand: Stand, golden: Golden, name: str) -> None:
    """Proven before anybody was let in, right, and by both engines."""
    assert loads(stand, ".proof."), "the deployment has proven itself by them"
    all_right(stand, golden, name)
    legs = {(one.leg, one.engine) for one in stand.journal().select(LegBegan)}
    assert legs == {("prefill", "prefill-0"), ("decode", "decode-0")}


def test_prefill_and_decode_joined_by_a_tier(tiny_model: Path, folder: Path, golden: Golden) -> None:
    with standing("pd_tier", tiny_model, folder, **SMALL_LMCACHE) as stand:
        handed_over(stand, golden, "pd_tier")


def test_prefill_and_decode_joined_by_nixl(tiny_model: Path, folder: Path, golden: Golden) -> None:
    with standing("pd_nixl", tiny_model, folder) as stand:
        handed_over(stand, golden, "pd_nixl")


def test_prefill_and_decode_joined_by_nixl_with_a_tier_beside(
    tiny_model: Path, folder: Path, golden: Golden
) -> None:
    with standing("pd_multi", tiny_model, folder, **SMALL_LMCACHE) as stand:
        handed_over(stand, golden, "pd_multi")


def test_prefill_and_decode_joined_by_mooncake_also_after_a_restart(
    tiny_model: Path, folder: Path, golden: Golden
) -> None:
    with standing("pd", tiny_model, folder) as stand:
        handed_over(stand, golden, "pd")
        assert stand.live.deployment is not None
        stand.live.deployment.restart("prefill-0")
        # at the same address, and known as another: what is told to decode is whom it finds there
        all_right(stand, golden, "restarted")
        assert loads(stand, "restarted.front")


def test_a_mooncake_store_gives_back_what_the_engine_forgot(tiny_model: Path, folder: Path, golden: Golden) -> None:
    with standing("colocated_mooncake", tiny_model, folder, tier__memory="256MiB") as stand:
        all_right(stand, golden, "store")
        assert stand.live.await_saved() == 0
        stand.live.clear_engine()
        before = loaded_tokens(stand.live.engine)
        prompt = prompts(stand.tokens)[1]
        assert answer(stand.live.engine, prompt, "store.again.0.0") == golden[1]
        assert loaded_tokens(stand.live.engine) - before == 384
        assert loads(stand, "store.again.0.0")
