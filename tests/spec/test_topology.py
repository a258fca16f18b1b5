"""What roles, transfer and tier may stand together, and what a user is told where they may not."""

from typing import Any

import pytest

from testbed.errors import SpecError
from testbed.spec.load import load
from testbed.spec.topology import Topology

APART = """\
name: pd
model: tiny
engines:
  - {role: prefill, replicas: 2}
  - {role: decode}
transfer: {kind: nixl, load_deadline: 30s}
tier: {kind: none}
on_load_failure: {policy: recompute}
"""
LMCACHE = "tier: {kind: lmcache, memory: 1GiB, load_deadline: 5s}"


def changed(*edits: tuple[str, str]) -> str:
    text = APART
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    return text


def read(text: str) -> Topology:
    return load(text, Topology, where="t.yaml").value


def test_a_way_by_itself_has_its_own_deadline_and_a_way_by_the_tier_has_the_tiers() -> None:
    assert read(APART).load_deadline_s == 30.0
    assert read(changed(("kind: nixl, load_deadline: 30s", "kind: tier"), ("tier: {kind: none}", LMCACHE)))\
        .load_deadline_s == 5.0


def test_without_transfer_and_tier_there_is_no_probe_and_nothing_to_be_late() -> None:
    plain = read("name: t\nmodel: m\nengines: [{role: both}]\ntier: {kind: none}\non_load_failure: {policy: fail}\n")
    assert (plain.probed, plain.load_deadline_s, plain.apart, plain.routed) == (False, None, False, False)


def test_a_router_stands_before_several_engines_and_where_one_is_written() -> None:
    one = "name: t\nmodel: m\nengines: [{role: both}]\ntier: {kind: none}\non_load_failure: {policy: fail}\n"
    assert read(APART).routed
    assert read(one.replace("{role: both}", "{role: both, replicas: 2}")).routed
    assert read(one + "router: {policy: round_robin}\n").routed


@pytest.mark.parametrize(
    ("edits", "said"),
    [
        (
            [("  - {role: decode}\n", "")],
            "t.yaml:4: engines[0].role: prefill engines need decode engines; there are none",
        ),
        (
            [("  - {role: prefill, replicas: 2}\n", "")],
            "t.yaml:4: engines[0].role: decode engines need prefill engines; there are none",
        ),
        (
            [("  - {role: decode}\n", "  - {role: decode}\n  - {role: both}\n")],
            "t.yaml:6: engines[2].role: an engine that does both can't stand beside prefill and decode engines",
        ),
        (
            [("transfer: {kind: nixl, load_deadline: 30s}\n", "")],
            "t.yaml:4: engines[0].role: prefill and decode engines need a way for the KV from one to the other;",
        ),
        (
            [("  - {role: prefill, replicas: 2}\n  - {role: decode}", "  - {role: both}")],
            "t.yaml:5: transfer.kind: nixl joins prefill and decode engines; there are none",
        ),
        (
            [("kind: nixl, load_deadline: 30s", "kind: tier")],
            "t.yaml:6: transfer.kind: prefill and decode can't meet in a tier of kind none",
        ),
        (
            [("nixl", "mooncake_p2p"), ("tier: {kind: none}", LMCACHE)],
            "t.yaml:6: transfer.kind: mooncake_p2p can't be combined with tier lmcache: the prefill engine's API server"
            " dies on an assertion about metrics",
        ),
        (
            [("tier: {kind: none}", "tier: {kind: mooncake_store, memory: 1GiB, load_deadline: 5s}")],
            "t.yaml:6: transfer.kind: nixl was never seen to work beside tier mooncake_store; beside lmcache it does",
        ),
        (
            [("{role: decode}", "{role: decode, gpus: 2, tensor_parallel: 4}")],
            "t.yaml:5: engines[1].tensor_parallel: a replica of 4 ranks needs as many GPUs; it has gpus: 2",
        ),
        (
            [("kind: nixl, load_deadline: 30s", "kind: tier, load_deadline: 30s"), ("tier: {kind: none}", LMCACHE)],
            "t.yaml:6: transfer.load_deadline is not a key; known are kind",
        ),
        (
            [("kind: nixl, load_deadline: 30s", "kind: nixl")],
            "t.yaml:6: transfer.load_deadline is missing",
        ),
        (
            [("kind: nixl", "kind: nixel")],
            't.yaml:6: transfer.kind is "nixel"; known are none, mooncake_p2p, nixl, tier\nhint: did you mean "nixl"?',
        ),
    ],
)
def test_what_can_not_stand_together_is_told_with_its_line(edits: list[tuple[str, str]], said: str) -> None:
    with pytest.raises(SpecError) as raised:
        read(changed(*edits))
    assert str(raised.value).startswith(said)


def test_all_that_is_wrong_between_parts_is_told_at_once() -> None:
    edits: list[tuple[str, str]] = [
        ("{role: decode}", "{role: decode, tensor_parallel: 2}"), ("kind: nixl, load_deadline: 30s", "kind: tier"),
    ]
    with pytest.raises(SpecError) as raised:
        read(changed(*edits))
    lines = str(raised.value).splitlines()
    assert [line.partition(": ")[0] for line in lines] == ["2 problems", "t.yaml:5", "t.yaml:6"]


def test_a_setting_that_breaks_a_topology_is_named_as_the_place() -> None:
    settings: dict[str, Any] = {"transfer.kind": "none"}
    with pytest.raises(SpecError, match=r"engines\[0\].role: prefill and decode engines need a way"):
        load(APART, Topology, where="t.yaml", settings=settings)
