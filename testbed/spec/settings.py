"""`--set key=value` and an arm's `set`: change what a file says before it is checked."""

import copy
from collections.abc import Mapping
from typing import Any

from testbed.errors import SpecError
from testbed.spec.suggest import did_you_mean
from testbed.spec.tree import KeyPath, Problem, Tree, parse_scalar, refuse, shown


def parse_setting(text: str) -> tuple[str, Any]:
    """Take `tier.kind=none` apart; the value is read as YAML.

    Raises: SpecError if there is no `=`, no key, or no readable value.
    """
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise SpecError(f'"{text}" is not KEY=VALUE', where="--set", hint="write it like --set tier.kind=none")
    return key.strip(), parse_scalar(value, where=f"--set {key.strip()}")


def apply_settings(tree: Tree, settings: Mapping[str, Any], *, where: str = "--set") -> tuple[Tree, tuple[str, ...]]:
    """Return the tree with each dotted path (`engines.0.gpus`) set, and the keys that fell away.

    Setting a `kind` to another one drops the keys beside it, for they belong to the old kind. Kinds are set first, so
    that `tier.kind` and `tier.memory` may come in any order.
    Raises: SpecError with all paths that lead nowhere. A key that no model knows is left to the check that follows.
    """
    data, places = copy.deepcopy(tree.data), dict(tree.places)
    problems: list[Problem] = []
    dropped: list[str] = []
    for name in sorted(settings, key=lambda name: name.rpartition(".")[2] != "kind"):
        path = _path(name)
        try:
            fell = _set(_holder(data, path), path, settings[name])
        except _NoSuchPath as lost:
            problems.append(Problem(f"{where} {name}", lost.message, lost.hint))
            continue
        dropped += fell
        changed = path[:-1] if fell else path
        for old in [place for place in places if place[: len(changed)] == changed]:
            del places[old]
        places[changed] = places[path] = f"{where} {name}"
    if problems:
        raise refuse(problems)
    return Tree(tree.name, tree.text, data, places), tuple(dropped)


class _NoSuchPath(SpecError):
    """A path that leads through something that is not there."""


def _path(name: str) -> KeyPath:
    parts = name.replace("[", ".").replace("]", "").split(".")
    return tuple(int(part) if part.isdecimal() else part for part in parts)


def _holder(data: Any, path: KeyPath) -> Any:
    """What holds the last part of `path`."""
    for depth in range(len(path) - 1):
        data = _step(data, path, depth)
    _refuse_scalar(data, path, len(path) - 1)
    return data


def _step(data: Any, path: KeyPath, depth: int) -> Any:
    """What stands at `path[depth]`."""
    _refuse_scalar(data, path, depth)
    part = path[depth]
    if isinstance(data, list):
        return data[_index(data, path, depth)]
    if str(part) not in data:
        message = f"there is no {shown(path[: depth + 1])}; known are {', '.join(data)}"
        raise _NoSuchPath(message, hint=did_you_mean(str(part), data))
    return data[str(part)]


def _refuse_scalar(data: Any, path: KeyPath, depth: int) -> None:
    if not isinstance(data, dict | list):
        raise _NoSuchPath(f"{shown(path[:depth])} holds a single value, so there is no {shown(path)}")


def _index(data: list[Any], path: KeyPath, depth: int) -> int:
    part = path[depth]
    if not isinstance(part, int) or part >= len(data):
        around = shown(path[:depth]) if depth else "the file"
        raise _NoSuchPath(f"{around} is a list of {len(data)}", hint=f"give a number from 0 to {len(data) - 1}")
    return part


def _set(holder: Any, path: KeyPath, value: Any) -> list[str]:
    """Put `value` there; return the keys beside a `kind` that fell away."""
    if isinstance(holder, list):
        holder[_index(holder, path, len(path) - 1)] = value
        return []
    key = str(path[-1])
    others = [other for other in holder if other != key]
    if key != "kind" or holder.get("kind") == value:
        holder[key] = value
        return []
    holder.clear()
    holder["kind"] = value
    return [shown((*path[:-1], other)) for other in others]
