"""What pydantic found wrong, in the words of the file: one plain sentence a problem, with a suggestion."""

import json
import re
import typing
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel

from testbed.spec.suggest import did_you_mean, nearest
from testbed.spec.tree import KeyPath, Problem, Tree, shown

Found = Mapping[str, Any]
"""One entry of `ValidationError.errors()`."""

_KINDS = {
    "int_type": "a whole number", "int_from_float": "a whole number", "float_type": "a number",
    "string_type": "text", "bool_type": "true or false", "model_type": "a mapping", "dict_type": "a mapping",
    "model_attributes_type": "a mapping", "tuple_type": "a list", "list_type": "a list",
}
_BOUNDS = {
    "greater_than": ("gt", "above"), "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "below"), "less_than_equal": ("le", "at most"),
}
_TAGS = ("kind", "process")
"""Keys that say which of several models a mapping is."""
_FRACTION = re.compile(r"\s*(\d+)\s*/\s*([1-9]\d*)\s*")


def plain_problems(found: Sequence[Found], tree: Tree, model: type[BaseModel]) -> list[Problem]:
    """One problem for each wrong place, in the order of the file's lines."""
    grouped: dict[KeyPath, list[Found]] = {}
    for each in found:
        grouped.setdefault(_path(each, tree.data), []).append(each)
    paths = [path for path in grouped if not _is_other_branch(path, grouped)]
    problems = [_problem(path, grouped[path], tree, model) for path in paths if not _is_mistyped(path, grouped, tree)]
    return sorted(dict.fromkeys(problems), key=lambda problem: _line(problem.where))


def _line(place: str) -> int:
    """The line of `file:line`; flags come first."""
    number = place.rpartition(":")[2]
    return int(number) if number.isdecimal() else 0


def _path(found: Found, data: Any) -> KeyPath:
    """The key path of a problem, without the names of union branches that pydantic puts in between."""
    path: list[str | int] = []
    location = found["loc"]
    for number, part in enumerate(location, start=1):
        is_last = number == len(location)
        if part in data if isinstance(data, dict) else isinstance(data, list) and isinstance(part, int):
            data = data[part]
        elif not (is_last and found["type"] == "missing"):
            continue
        path.append(part)
    return tuple(path)


def _is_other_branch(path: KeyPath, grouped: Mapping[KeyPath, list[Found]]) -> bool:
    """True for "must be off" about a mapping whose inside is what is wrong."""
    inside = any(len(other) > len(path) and other[: len(path)] == path for other in grouped)
    return inside and all(found["type"] in (*_KINDS, "literal_error") for found in grouped[path])


def _is_mistyped(path: KeyPath, grouped: Mapping[KeyPath, list[Found]], tree: Tree) -> bool:
    """True for "memory is missing" where "memry is not a key" is said already."""
    if not path or grouped[path][0]["type"] != "missing":
        return False
    extra = [
        str(other[-1]) for other, found in grouped.items()
        if other[:-1] == path[:-1] and found[0]["type"] == "extra_forbidden"
    ]
    return any(nearest(word, [str(path[-1])]) for word in extra)


def _problem(path: KeyPath, found: Sequence[Found], tree: Tree, model: type[BaseModel]) -> Problem:
    message, hint = _sentence(path, found, tree, model)
    return Problem(tree.place(path), message, hint)


def _sentence(path: KeyPath, found: Sequence[Found], tree: Tree, model: type[BaseModel]) -> tuple[str, str | None]:
    first, name = found[0], shown(path) if path else "the file"
    value = first["input"]
    if first["type"] == "missing":
        return f"{name} is missing", None
    if first["type"] == "extra_forbidden":
        return _unknown_key(path, tree, model)
    if first["type"] == "union_tag_not_found":
        tag = _quoted(first["ctx"]["discriminator"])[0]
        misspelt = [key for key in value if nearest(key, [tag])] if isinstance(value, dict) else []
        hint = f'is "{misspelt[0]}" meant to be "{tag}"?' if misspelt else None
        return f"{name}.{tag} is missing; known are {_known_kinds(path, tree, model)}", hint
    if first["type"] == "union_tag_invalid":
        tag = _quoted(first["ctx"]["discriminator"])[0]
        return _unknown_word(f"{name}.{tag}", first["ctx"]["tag"], _quoted(first["ctx"]["expected_tags"]))
    if all(each["type"] == "literal_error" for each in found):
        return _unknown_word(name, value, [word for each in found for word in _quoted(each["ctx"]["expected"])])
    if first["type"] == "value_error":
        return f"{name}: {first['ctx']['error']}", None
    return f"{name} is {_value(value)}; must be {' or '.join(_wanted(each) for each in found)}", _how(first)


def _unknown_word(name: str, value: object, known: Sequence[str]) -> tuple[str, str | None]:
    hint = did_you_mean(value, known) if isinstance(value, str) else None
    return f"{name} is {_value(value)}; known are {', '.join(known)}", hint


def _unknown_key(path: KeyPath, tree: Tree, model: type[BaseModel]) -> tuple[str, str | None]:
    holder = tree.data
    for part in path[:-1]:
        holder = holder[part]
    known = sorted({_key(owner, field) for owner in _models_at(path[:-1], tree, model) for field in owner.model_fields})
    # A key that is there already is hardly the one that was meant.
    absent = [key for key in known if key not in holder]
    word = str(path[-1])
    hint = did_you_mean(word, absent)
    return f"{shown(path)} is not a key; known are {', '.join(known)}", hint if hint else did_you_mean(word, known)


def _wanted(found: Found) -> str:
    kind, context = found["type"], found.get("ctx", {})
    if kind in _KINDS:
        return _KINDS[kind]
    if kind in _BOUNDS:
        key, words = _BOUNDS[kind]
        return f"{words} {context[key]:g}"
    if kind == "literal_error":
        return " or ".join(f'"{word}"' for word in _quoted(context["expected"]))
    if kind == "string_pattern_mismatch":
        return f"written like {context['pattern']}"
    if kind == "too_short":
        return f"at least {context['min_length']} long"
    return str(found["msg"]).removeprefix("Input should be ")


def _how(found: Found) -> str | None:
    """What to write instead, where that is plain."""
    value = found["input"]
    if isinstance(value, str) and found["type"] == "float_type" and (part := _FRACTION.fullmatch(value)):
        return f"write {int(part[1]) / int(part[2]):g}"
    if found["type"] == "string_type" and isinstance(value, int | float | bool):
        return f'quote it: "{_value(value)}"'
    return None


def _value(value: object) -> str:
    """A value as the file has it; what is longer than a word is named by its kind."""
    if value is None:
        return "empty"
    if isinstance(value, dict):
        return "a mapping"
    return "a list" if isinstance(value, list | tuple) else json.dumps(value, ensure_ascii=False, default=str)


def _quoted(text: str) -> list[str]:
    """The words of pydantic's "'a', 'b' or 'c'"."""
    return re.findall(r"'([^']*)'", text)


def _key(model: type[BaseModel], field: str) -> str:
    """The key that a user writes for a field."""
    alias = model.model_fields[field].alias
    return field if alias is None else alias


def _known_kinds(path: KeyPath, tree: Tree, model: type[BaseModel]) -> str:
    owners = _models_at(path, tree, model)
    return ", ".join(kind for owner in owners for kind in _kinds_of(owner))


def _kinds_of(model: type[BaseModel]) -> tuple[str, ...]:
    fields = (model.model_fields[tag] for tag in _TAGS if tag in model.model_fields)
    return next((typing.get_args(field.annotation) for field in fields if _is_literal(field.annotation)), ())


def _is_literal(annotation: object) -> bool:
    return typing.get_origin(annotation) is Literal


def _models_at(path: KeyPath, tree: Tree, model: type[BaseModel]) -> list[type[BaseModel]]:
    """The models that may describe what stands at `path`; the `kind` that stands there picks one."""
    models, data = [model], tree.data
    for part in path:
        data = data[part]
        fields = [
            owner.model_fields[field].annotation for owner in models for field in owner.model_fields
            if _key(owner, field) == part
        ]
        # A number, or a name that the user chose, leads on within the same field.
        models = [inner for annotation in fields for inner in _models_in(annotation)] if fields else models
        kinds = [data[tag] for tag in _TAGS if tag in data] if isinstance(data, dict) else []
        picked = [owner for owner in models if any(kind in _kinds_of(owner) for kind in kinds)]
        models = picked if picked else models
    return models


def _models_in(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in typing.get_args(annotation):
        yield from _models_in(inner)
