"""Settings reach any place of a file, and a new kind takes the keys of the old one with it."""

from typing import Any

import pytest

from testbed.errors import SpecError
from testbed.spec.load import apply_settings, parse_setting, parse_tree

TEXT = """\
tier: {kind: lmcache, memory: 4GiB, backing: {kind: redis, memory: 1GiB}}
engines:
  - {role: both}
"""


def settled(**settings: object) -> tuple[Any, tuple[str, ...]]:
    """The values and the dropped keys, after settings written with __ for the dot."""
    given = {name.replace("__", "."): value for name, value in settings.items()}
    tree, dropped = apply_settings(parse_tree(TEXT, where="t.yaml"), given)
    return tree.data, dropped


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("tier.kind=none", "tier.kind", "none"),
        ("a=off", "a", "off"),
        ("a=3", "a", 3),
        ("a=1e3", "a", 1000),
        ("a=2s", "a", "2s"),
        ("a={budget: 64}", "a", {"budget": 64}),
        ("a.b=[1, x=y]", "a.b", [1, "x=y"]),
        ("a=", "a", ""),
    ],
)
def test_a_setting_is_a_path_and_a_yaml_value(text: str, name: str, value: object) -> None:
    assert parse_setting(text) == (name, value)


@pytest.mark.parametrize("text", ["tier.kind", "=none", " =x", ""])
def test_what_is_no_setting_is_refused(text: str) -> None:
    with pytest.raises(SpecError, match="is not KEY=VALUE"):
        parse_setting(text)


def test_a_value_that_is_not_yaml_is_refused_by_the_name_of_its_flag() -> None:
    with pytest.raises(SpecError, match=r"--set tier\.kind:1: is not YAML"):
        parse_setting("tier.kind=[none")


def test_a_list_is_reached_by_its_number() -> None:
    data, _ = settled(engines__0__gpus=2)
    assert data["engines"] == [{"role": "both", "gpus": 2}]


def test_a_new_kind_drops_the_keys_of_the_old_one() -> None:
    data, dropped = settled(tier__kind="none")
    assert data["tier"] == {"kind": "none"}
    assert dropped == ("tier.memory", "tier.backing")


def test_the_same_kind_drops_nothing() -> None:
    data, dropped = settled(tier__kind="lmcache")
    assert data["tier"]["memory"] == "4GiB"
    assert dropped == ()


def test_kinds_are_set_first_whatever_the_order() -> None:
    data, dropped = settled(tier__size="1GiB", tier__kind="files")
    assert data["tier"] == {"kind": "files", "size": "1GiB"}
    assert dropped == ("tier.memory", "tier.backing")


def test_the_tree_that_was_given_stays_as_it_is() -> None:
    tree = parse_tree(TEXT, where="t.yaml")
    apply_settings(tree, {"tier.kind": "none"})
    assert tree.data["tier"]["memory"] == "4GiB"


def test_all_paths_that_lead_nowhere_are_refused_at_once() -> None:
    with pytest.raises(SpecError) as raised:
        settled(teir__kind="none", engines__1__gpus=1, tier__kind__x=1)
    assert str(raised.value).splitlines() == [
        "3 problems",
        '--set teir.kind: there is no teir; known are tier, engines (did you mean "tier"?)',
        "--set engines.1.gpus: engines is a list of 1 (give a number from 0 to 0)",
        "--set tier.kind.x: tier.kind holds a single value, so there is no tier.kind.x",
    ]
