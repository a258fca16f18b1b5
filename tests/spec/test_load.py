"""A file becomes a spec, or one error that names each wrong line in plain words."""

import json
from pathlib import Path

import pytest

from testbed.errors import SpecError
from testbed.spec.arrival import Poisson
from testbed.spec.load import Loaded, load
from testbed.spec.machine import Slo
from testbed.spec.topology import LmcacheTier, NoTier, Topology
from testbed.spec.workload import Workload

FIXTURES = Path(__file__).parent.parent / "fixtures" / "spec"

TOPOLOGY = """\
name: colocated
model: tiny
engines:
  - role: both
    replicas: 1
    chunked_prefill: off
tier:
  kind: lmcache
  memory: 4GiB
  load_deadline: 2s
on_load_failure: {policy: recompute, attempts: 1}
"""


def topology(old: str = "", new: str = "", **settings: object) -> Loaded[Topology]:
    """The topology above with one piece of text replaced."""
    assert old in TOPOLOGY
    given = {name.replace("__", "."): value for name, value in settings.items()}
    return load(TOPOLOGY.replace(old, new), Topology, where="t.yaml", settings=given)


def refusal(old: str, new: str, **settings: object) -> str:
    """What the user reads about the same."""
    with pytest.raises(SpecError) as raised:
        topology(old, new, **settings)
    return str(raised.value)


def test_off_is_text_and_sizes_are_bytes() -> None:
    loaded = topology().value
    assert loaded.engines[0].chunked_prefill == "off"
    # 4 GiB = 4 x 2^30 bytes
    assert isinstance(loaded.tier, LmcacheTier)
    assert loaded.tier.memory == 4_294_967_296
    assert topology().text == TOPOLOGY


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "role: both", "role: bot",
            't.yaml:4: engines[0].role is "bot"; known are both, prefill, decode\nhint: did you mean "both"?',
        ),
        (
            "  memory:", "  memry:",
            "t.yaml:9: tier.memry is not a key; known are backing, chunk_blocks, kind, load_deadline, memory\n"
            'hint: did you mean "memory"?',
        ),
        (
            "lmcache", "lmcahe",
            't.yaml:7: tier.kind is "lmcahe"; known are none, lmcache, mooncake_store, files\n'
            'hint: did you mean "lmcache"?',
        ),
        ("  kind: lmcache\n", "", "t.yaml:7: tier.kind is missing; known are none, lmcache, mooncake_store, files"),
        ("  memory: 4GiB\n", "", "t.yaml:7: tier.memory is missing"),
        ("replicas: 1", "replicas: 1.5", "t.yaml:5: engines[0].replicas is 1.5; must be a whole number"),
        ("replicas: 1", "replicas: 0", "t.yaml:5: engines[0].replicas is 0; must be at least 1"),
        ("replicas: 1", "replicas:", "t.yaml:5: engines[0].replicas is empty; must be a whole number"),
        ("replicas: 1", "replicas: {a: 1}", "t.yaml:5: engines[0].replicas is a mapping; must be a whole number"),
        ("prefill: off", "prefill: no", 't.yaml:6: engines[0].chunked_prefill is "no"; must be a mapping or "off"'),
        (
            "prefill: off", "prefill: {budgt: 64}",
            "t.yaml:6: engines[0].chunked_prefill.budgt is not a key; known are budget\n"
            'hint: did you mean "budget"?',
        ),
        (
            "deadline: 2s", "deadline: 2",
            "t.yaml:10: tier.load_deadline: 2 is not a duration; write a number with ms, s, min or h, such as 2s",
        ),
        ("    replicas: 1", "    env: {A: 1}", 't.yaml:5: engines[0].env.A is 1; must be text\nhint: quote it: "1"'),
        (TOPOLOGY, "- 1", "t.yaml:1: the file is a list; must be a mapping"),
        (TOPOLOGY, "# nothing\n", "t.yaml: is empty"),
        ("  - role: both", "\t- role: both", "t.yaml:4: has a tab where YAML wants spaces\nhint: indent with spaces"),
        ("name: colocated", "name: [colocated", "t.yaml:2: is not YAML: expected ',' or ']', but got ':'"),
        (TOPOLOGY, "a: 1\n---\nb: 2", "t.yaml:2: holds more than one document\nhint: give each its own file"),
        (
            "model: tiny", "model: !secret tiny",
            "t.yaml:2: model has the tag !secret\nhint: write the value without a tag",
        ),
        ("replicas: 1", "replicas: .nan", "t.yaml:5: engines[0].replicas is .nan, which is not a finite number"),
        (TOPOLOGY, f"a: {'[' * 500}", "t.yaml: is nested too deeply"),
        (
            "kind: lmcache", "kind: none",
            "2 problems\nt.yaml:9: tier.memory is not a key; known are kind\n"
            "t.yaml:10: tier.load_deadline is not a key; known are kind",
        ),
        ("model: tiny", "model: &a [*a]", "t.yaml:2: model[0] holds itself"),
        (
            TOPOLOGY, f"%YAML 1.1\n---\n{TOPOLOGY}",
            "t.yaml:1: asks for YAML 1.1, where off and no are not text\nhint: drop the line",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_line(old: str, new: str, message: str) -> None:
    assert refusal(old, new) == message


def test_all_problems_come_at_once_in_order_of_lines() -> None:
    text = TOPOLOGY.replace("role: both", "role: bot").replace("  memory:", "  memry:").replace("model:", "modl:")
    with pytest.raises(SpecError) as raised:
        load(text, Topology, where="t.yaml")
    assert str(raised.value).splitlines() == [
        "3 problems",
        't.yaml:2: modl is not a key; known are engines, model, name, on_load_failure, router, tier, '
            'transfer (did you mean "model"?)',
        't.yaml:4: engines[0].role is "bot"; known are both, prefill, decode (did you mean "both"?)',
        "t.yaml:9: tier.memry is not a key; known are backing, chunk_blocks, kind, load_deadline, memory "
        '(did you mean "memory"?)',
    ]


def test_a_key_that_is_there_already_is_not_what_was_meant() -> None:
    # ttot is one letter from both ttft and tpot
    with pytest.raises(SpecError) as raised:
        load("{name: x, kind: multiples, ttot: 3, tpot: 3, source: x}", Slo, where="s.yaml")
    assert raised.value.hint == 'did you mean "ttft"?'


def test_repeated_keys_are_all_refused_with_both_lines() -> None:
    with pytest.raises(SpecError) as raised:
        load((FIXTURES / "numbers_and_duplicates.yaml").read_text(), Workload, where="n.yaml")
    assert str(raised.value).splitlines() == [
        "2 problems",
        "n.yaml:5: block.size is given twice, on line 5 (keep one of them)",
        "n.yaml:6: rate_a is given twice, on lines 2 and 6 (keep one of them)",
    ]


def workload(rate: str) -> Loaded[Workload]:
    """A workload with one class whose rate is as written."""
    text = (
        "name: w\nduration: 60s\nclasses:\n  chat:\n    arrival:\n      process: poisson\n"
        f"      rate: {rate}\n    input: {{fixed: 8}}\n    output: {{fixed: 8}}\n    stop: forced\n    timeout: 9s\n"
    )
    return load(text, Workload, where="w.yaml")


@pytest.mark.parametrize(("written", "rate"), [("1e3", 1000.0), ("1.0e+3", 1000.0), ("8e-1", 0.8), ("2", 2.0)])
def test_numbers_with_an_exponent_are_numbers(written: str, rate: float) -> None:
    assert workload(written).value.classes["chat"].arrival == Poisson(process="poisson", rate=rate)


def test_a_whole_number_with_an_exponent_is_a_whole_number() -> None:
    assert topology("attempts: 1", "attempts: 2e1").value.on_load_failure.attempts == 20


def test_a_fraction_is_refused_with_the_number_to_write() -> None:
    with pytest.raises(SpecError) as raised:
        workload("1/2")
    assert str(raised.value) == (
        'w.yaml:7: classes.chat.arrival.rate is "1/2"; must be a number\nhint: write 0.5'
    )


SIZES = json.loads((FIXTURES / "sizes.json").read_text())


@pytest.mark.parametrize(("written", "size"), SIZES["accepted"].items())
def test_a_size_is_that_many_bytes(written: str, size: int) -> None:
    tier = topology("4GiB", f'"{written}"').value.tier
    assert isinstance(tier, LmcacheTier)
    assert tier.memory == size


@pytest.mark.parametrize("written", SIZES["refused"])
def test_a_size_without_a_clear_unit_is_refused(written: str) -> None:
    assert refusal("4GiB", f'"{written}"').startswith(f"t.yaml:9: tier.memory: {written!r} is not a size; write")
    assert "t.yaml:9: tier.memory: 1024 is not a size" in refusal("4GiB", "1024")


def test_settings_are_checked_like_the_file_and_named_by_their_flag() -> None:
    assert refusal("", "", tier__memory="lots").startswith("--set tier.memory: tier.memory: 'lots' is not a size")
    assert refusal("", "", tier__memry="1GiB").startswith("--set tier.memry: tier.memry is not a key")


def test_settings_change_the_text_too() -> None:
    changed = topology(tier__kind="none")
    assert changed.value.tier == NoTier(kind="none")
    assert changed.dropped == ("tier.memory", "tier.load_deadline")
    assert load(changed.text, Topology, where="again.yaml").value == changed.value
