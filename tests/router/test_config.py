"""`router:` of a topology, and the file that a router is given."""

from typing import Any

import msgspec
import pytest

from testbed.errors import SpecError
from testbed.router.engine import host_and_port
from testbed.spec.load import load
from testbed.spec.routing import EngineAt, RouterConfig, Routing, read_router_config, router_config

PREFILL = {"name": "p0", "url": "http://127.0.0.1:1", "role": "prefill", "bootstrap_url": "http://127.0.0.1:2"}
DECODE = {"name": "d0", "url": "http://127.0.0.1:3", "role": "decode"}
BOTH = {"name": "e0", "url": "http://127.0.0.1:1"}


def text(engines: list[dict[str, Any]], **more: Any) -> bytes:
    return msgspec.json.encode({"engines": engines, "model": "m", **more})


def test_what_a_user_writes_becomes_the_file_and_comes_back() -> None:
    written = "policy: cost\nmax_in_flight: 9\navoid_after_failure: 0s\n" \
              "deadlines: {silence: 500ms, prefill: 2min}\n" \
              "cost: {prefill_tokens_per_s: 1000, kv_per_token: 8KiB, fetch_bytes_per_s: 2e9}\n"
    routing = load(written, Routing, where="t.yaml").value
    engines = [EngineAt(name="e0", url="http://127.0.0.1:1")]
    config = router_config(routing, engines, model="m", port=8000, transfer=None)
    assert read_router_config(msgspec.json.encode(config), "f") == config
    assert (config.policy, config.max_in_flight, config.avoid_after_failure_s) == ("cost", 9, 0.0)
    assert (config.silence_s, config.prefill_s, config.connect_s) == (0.5, 120.0, 2.0)
    assert (config.prefill_tokens_per_s, config.kv_bytes_per_token, config.fetch_bytes_per_s) == (1000.0, 8192, 2e9)


def test_the_defaults_of_both_are_the_same() -> None:
    config = router_config(Routing(), [EngineAt(name="e0", url="http://127.0.0.1:1")], model="m", port=0, transfer=None)
    assert config == RouterConfig(engines=[EngineAt(name="e0", url="http://127.0.0.1:1")], model="m")


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("policy: fastest\n", 'policy is "fastest"; known are round_robin, least_loaded, prefix_affinity, cost'),
        ("policy: cost\n", "give both or neither"),
        ("max_in_flight: 0\n", "max_in_flight is 0; must be at least 1"),
        ("deadlines: {silence: 0s}\n", "deadlines.silence is"),
        ("policy: cost\ncost: {prefill_tokens_per_s: 1, fetch_bytes_per_s: 1}\n", "needs kv_per_token"),
        ("retries: 3\n", "retries is not a key"),
    ],
)
def test_what_can_not_be_is_refused_in_words(written: str, said: str) -> None:
    with pytest.raises(SpecError, match=r"t\.yaml:") as refused:
        load(written, Routing, where="t.yaml")
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"{", "is not a file for the router"),
        (text([BOTH], retries=3), "retries"),
        (text([BOTH, BOTH]), "two engines are called e0"),
        (text([]), "the roles must be both; found none"),
        (text([PREFILL], transfer="nixl"), "the roles must be decode and prefill; found prefill"),
        (text([PREFILL, DECODE]), "without a transfer the roles must be both"),
        (text([PREFILL | {"bootstrap_url": None}, DECODE], transfer="mooncake_p2p"), "p0 has no bootstrap_url"),
        (text([BOTH], policy="cost"), "policy cost needs prefill_tokens_per_s"),
    ],
)
def test_a_file_that_a_router_can_not_follow_is_refused(content: bytes, said: str) -> None:
    with pytest.raises(SpecError, match=r"config\.json") as refused:
        read_router_config(content, "config.json")
    assert said in str(refused.value)


@pytest.mark.parametrize("url", ["127.0.0.1:1", "https://h:1", "http://h", "http://h:x", "http://h:1/v1"])
def test_an_address_must_have_host_and_port(url: str) -> None:
    with pytest.raises(SpecError, match="address"):
        host_and_port(url)
