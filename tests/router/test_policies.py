"""Who is chosen: pure functions of what is in flight and of what was chosen before."""

import json

import pytest

from testbed.router.policies.cost import Cost, Rates, predict
from testbed.router.policies.least_loaded import LeastLoaded
from testbed.router.policies.policy import Ask, Load, Policy
from testbed.router.policies.prefix_affinity import BUSIER_BY, PrefixAffinity
from testbed.router.policies.prefixes import PIECE_BYTES, Prefixes
from testbed.router.policies.round_robin import RoundRobin

IDLE = [Load("a", 0), Load("b", 0), Load("c", 0)]


def chosen(policy: Policy, count: int, loads: list[Load], ask: Ask | None = None) -> list[str]:
    return [policy.choose(ask if ask is not None else Ask(), loads).engine for _ in range(count)]


def document(number: int, tokens: int = 600) -> Ask:
    """A prompt of ids that shares nothing with that of another number."""
    return Ask(json.dumps([number, *range(1000, 1000 + tokens - 1)]).encode())


def test_round_robin_takes_turns_whatever_the_load() -> None:
    assert chosen(RoundRobin(), 4, [Load("a", 9), Load("b", 0), Load("c", 0)]) == ["a", "b", "c", "a"]


def test_the_least_loaded_is_chosen_and_equals_take_turns() -> None:
    policy = LeastLoaded()
    assert chosen(policy, 3, IDLE) == ["a", "b", "c"]
    choice = policy.choose(Ask(), [Load("a", 2), Load("b", 1), Load("c", 4)])
    assert (choice.engine, choice.scores) == ("b", {"a": 2.0, "b": 1.0, "c": 4.0})


def test_a_prompt_goes_where_its_beginning_went() -> None:
    policy = PrefixAffinity()
    first = {number: policy.choose(document(number), IDLE).engine for number in range(3)}
    assert set(first.values()) == {"a", "b", "c"}
    again = {number: policy.choose(document(number), IDLE).engine for number in (2, 0, 1)}
    assert again == first


def test_a_longer_prompt_with_the_same_beginning_goes_there_too() -> None:
    policy = PrefixAffinity()
    engine = policy.choose(Ask(b"[" + b"7, " * 400), IDLE).engine
    choice = policy.choose(Ask(b"[" + b"7, " * 800), IDLE)
    # 2,401 bytes are 4 whole pieces of 512, of which 1,201 bytes hold 2 that are known
    assert (choice.engine, choice.scores[engine], PIECE_BYTES) == (engine, 2.0, 512)


def test_a_known_prefix_is_given_up_when_its_engine_is_far_busier() -> None:
    policy = PrefixAffinity()
    engine = policy.choose(document(1), IDLE).engine
    busy = [Load(load.name, BUSIER_BY if load.name == engine else 0) for load in IDLE]
    almost = [Load(load.name, BUSIER_BY - 1 if load.name == engine else 0) for load in IDLE]
    assert policy.choose(document(1), almost).engine == engine
    assert policy.choose(document(1), busy).engine != engine


def test_the_oldest_pieces_are_forgotten() -> None:
    prefixes = Prefixes(limit=3)
    old, new = (prefixes.names(name * 2 * PIECE_BYTES) for name in (b"o", b"n"))
    prefixes.learn(old, "a")
    prefixes.learn(new, "b")
    # four pieces, three kept: the first of the old prompt is gone, and with it all that follows it
    assert (prefixes.known(old, "a"), prefixes.known(new, "b"), prefixes.known(new, "a")) == (0, 2, 0)
    assert (prefixes.known_to_any(old), prefixes.known_to_any(new)) == (0, 2)


@pytest.mark.parametrize(
    ("prompt", "tokens"), [(b"[1, 2, 3]", 3), (b'"12345678"', 3), (b'[{"role": "user"}]', 5), (b"", 0)]
)
def test_ids_are_counted_and_text_is_estimated(prompt: bytes, tokens: int) -> None:
    # 10 and 18 bytes of text at 4 bytes a token are 2.5 and 4.5, rounded up
    assert Ask(prompt).tokens == tokens


RATES = Rates(prefill_tokens_per_s=1000.0, kv_bytes_per_token=1000, fetch_bytes_per_s=10e6)


def test_a_prediction_is_queue_plus_compute_plus_fetch() -> None:
    # behind 500 tokens: 0.5 s; 200 of 1,200 are local; 600 more in the tier: 600 x 1,000 B / 10 MB/s = 0.06 s; the
    # 400 that are left: 0.4 s
    found = predict(RATES, tokens=1200, local=200, shared=800, waiting=500)
    assert (found.queue_s, found.fetch_s, found.compute_s) == pytest.approx((0.5, 0.06, 0.4))
    assert found.compute_tokens == 400
    assert found.total_s == pytest.approx(0.96)


def test_what_is_slower_to_fetch_than_to_compute_is_computed() -> None:
    # 1,000 tokens: 1 s to compute, 1,000 x 1,000 B / 0.5 MB/s = 2 s to fetch
    slow = Rates(1000.0, 1000, 0.5e6)
    assert predict(slow, tokens=1000, local=0, shared=1000, waiting=0).total_s == pytest.approx(1.0)


def test_cost_chooses_another_engine_than_hits_would() -> None:
    ask = document(1)
    hits, cost = PrefixAffinity(), Cost(RATES)
    holder = hits.choose(ask, IDLE).engine
    assert cost.choose(ask, IDLE).engine == holder
    loads = [Load(load.name, 2, 5000 if load.name == holder else 0) for load in IDLE]
    assert hits.choose(ask, loads).engine == holder
    choice = cost.choose(ask, loads)
    assert choice.engine != holder
    # the holder's queue alone is 5,000 tokens at 1,000 a second
    assert choice.scores[holder] >= 5.0 > choice.scores[choice.engine]


def test_cost_counts_what_the_chosen_engine_will_have_to_compute() -> None:
    policy = Cost(Rates(prefill_tokens_per_s=1000.0))
    assert policy.choose(document(1), IDLE).compute_tokens == 600
    # its text is known but for the last piece, which is not whole
    assert 0 < policy.choose(document(1), IDLE).compute_tokens < 600 * PIECE_BYTES / len(document(1).prompt) + 1
