"""What holds for any file: no crash, right lines, and a typo is met with the key that was meant."""

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.errors import SpecError
from testbed.spec.experiment import Experiment
from testbed.spec.load import load, parse_tree, validate, written
from testbed.spec.topology import Topology
from tests.spec.committed import COMMITTED

# What a user may name as he likes, so that no typo can be seen in it.
FREE = {("classes",), ("arms", "set")}
Place = tuple[str | int, ...]


def keys_of(data: Any, path: Place = ()) -> list[Place]:
    """The places of all keys that a model knows."""
    if isinstance(data, list):
        return [found for index, item in enumerate(data) for found in keys_of(item, (*path, index))]
    if not isinstance(data, dict):
        return []
    words = tuple(part for part in path if isinstance(part, str))
    own = [] if words in FREE else [(*path, key) for key in data]
    return own + [found for key, item in data.items() for found in keys_of(item, (*path, key))]


def holder_of(data: Any, place: Place) -> Any:
    """What holds the last part of a place."""
    for part in place[:-1]:
        data = data[part]
    return data


def alike(name: str, place: Place, data: Any) -> tuple[object, ...]:
    """Equal for keys that are met alike: of one model, under the same keys and beside the same ones."""
    words = tuple(part for part in place if isinstance(part, str))
    own = words[:1] + words[2:] if words[:1] in FREE else words
    return (COMMITTED[name][1], own, *holder_of(data, place))


TREES = {name: parse_tree(text, where=name) for name, (text, _) in sorted(COMMITTED.items())}
PLACES = list({
    alike(name, place, tree.data): (name, place) for name, tree in TREES.items() for place in keys_of(tree.data)
}.values())


@st.composite
def typos(draw: st.DrawFn, word: str) -> str:
    """A word with one letter dropped, doubled, changed, or swapped with the next."""
    at = draw(st.integers(0, len(word) - 1))
    change = draw(st.sampled_from(("drop", "double", "change", "swap")))
    if change == "drop":
        return word[:at] + word[at + 1 :]
    if change == "double":
        return word[: at + 1] + word[at:]
    if change == "swap":
        return word[:at] + word[at : at + 2][::-1] + word[at + 2 :]
    return word[:at] + draw(st.sampled_from("abcdefghijklmnopqrstuvwxyz")) + word[at + 1 :]


@settings(max_examples=8)  # for each of some hundred keys
@given(st.data())
@pytest.mark.parametrize(("name", "place"), PLACES, ids=lambda part: part if isinstance(part, str) else str(part))
def test_a_typo_in_any_key_is_met_with_the_right_key(name: str, place: Place, data: st.DataObject) -> None:
    key = str(place[-1])
    typo = data.draw(typos(key))
    tree = copy.deepcopy(TREES[name])
    holder = holder_of(tree.data, place)
    if typo == key or not typo:
        return
    renamed = {(typo if each == key else each): value for each, value in holder.items()}
    holder.clear()
    holder.update(renamed)
    with pytest.raises(SpecError) as raised:
        validate(tree, COMMITTED[name][1])
    said = str(raised.value)
    # "kind" decides which keys there are, so its absence is what is told.
    assert f'"{key}"' in said or (key == "kind" and ".kind is missing" in said)


@given(blanks=st.lists(st.integers(0, 3), min_size=12, max_size=12))
def test_the_line_is_right_however_the_file_is_spaced(blanks: list[int]) -> None:
    lines = COMMITTED["colocated.yaml"][0].splitlines()
    wrong = next(number for number, line in enumerate(lines) if "role: both" in line)
    lines[wrong] = lines[wrong].replace("role: both", "role: bot")
    spaced = [part for line, count in zip(lines, blanks, strict=False) for part in [*["# x"] * count, line]]
    expected = next(number for number, line in enumerate(spaced, start=1) if "role: bot" in line)
    with pytest.raises(SpecError, match=rf"^t\.yaml:{expected}: engines\[0\]\.role"):
        load("\n".join(spaced), Topology, where="t.yaml")


@given(st.text(alphabet=st.sampled_from("ab:-{}[],&*!|>'\"%@`#?~ \n\t0.e1<"), max_size=60) | st.text(max_size=30))
def test_any_text_is_read_or_refused_never_a_crash(text: str) -> None:
    # No random text is an experiment, so all of it is refused, and by the one error that the command line expects.
    with pytest.raises(SpecError, match=r"^(t\.yaml|\d+ problems)"):
        load(text, Experiment, where="t.yaml")


FINITE = st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | st.integers() | FINITE | st.text(max_size=9)
WORDS = st.text("abc_", min_size=1, max_size=4)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(WORDS, VALUES, min_size=1, max_size=3))
def test_written_values_read_back_the_same(data: dict[str, Any]) -> None:
    assert parse_tree(written(data), where="t.yaml").data == data
