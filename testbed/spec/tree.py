"""YAML 1.2 text as plain values, each with the line it stands on. Refuses what YAML would silently bend."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from testbed.errors import SpecError

KeyPath = tuple[str | int, ...]

_TAG = "tag:yaml.org,2002:"
_OLD_VERSION = re.compile(r"^%YAML\s+1\.[01]\b", re.MULTILINE)
_EXPONENT = re.compile(r"[-+]?[0-9]+[eE]\+?[0-9]+")


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong in a file or a flag."""

    where: str
    message: str
    hint: str | None = None


@dataclass(frozen=True)
class Tree:
    """What a file says: plain dicts, lists and scalars, and for each key path the place that says it."""

    name: str
    text: str
    data: Any
    places: dict[KeyPath, str]

    def place(self, path: KeyPath) -> str:
        """Where `path` stands, or else the nearest part around it that stands somewhere."""
        while path and path not in self.places:
            path = path[:-1]
        return self.places.get(path, self.name)


def shown(path: KeyPath) -> str:
    """A key path as it is read: `engines[0].role`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


def refuse(problems: list[Problem]) -> SpecError:
    """One error that lists all problems, a line each."""
    if len(problems) == 1:
        return SpecError(problems[0].message, where=problems[0].where, hint=problems[0].hint)
    lines = [f"{each.where}: {each.message}{f' ({each.hint})' if each.hint else ''}" for each in problems]
    return SpecError("\n".join([f"{len(lines)} problems", *lines]))


def parse_tree(text: str, *, where: str) -> Tree:
    """Read YAML 1.2: `on`, `off`, `yes`, `no` are text, 1e3 is 1000, a key may stand once.

    Raises: SpecError with all repeated keys and odd values, or with the first error of syntax.
    """
    root = _compose(text, where)
    if root is None:
        raise SpecError("is empty", where=where)
    reading = _Reading(where, [], {})
    data = reading.value(root, ())
    if reading.problems:
        raise refuse(reading.problems)
    return Tree(where, text, data, reading.places)


def parse_scalar(text: str, *, where: str) -> Any:
    """The value of a flag, read as YAML: `none` is text, `3` a number, `[1, 2]` a list.

    Raises: SpecError
    """
    return parse_tree(text, where=where).data if text.strip() else ""


def _compose(text: str, where: str) -> Node | None:
    if old := _OLD_VERSION.search(text):
        place = f"{where}:{text.count(chr(10), 0, old.start()) + 1}"
        raise SpecError("asks for YAML 1.1, where off and no are not text", where=place, hint="drop the line")
    reader = YAML()
    try:
        return reader.compose(text)  # type: ignore[no-any-return]
    except MarkedYAMLError as problem:
        raise _syntax_error(problem, where) from problem
    except YAMLError as problem:
        raise SpecError(f"is not YAML: {' '.join(str(problem).split())}", where=where) from problem
    except RecursionError as problem:
        raise SpecError("is nested too deeply", where=where) from problem


def _syntax_error(problem: MarkedYAMLError, where: str) -> SpecError:
    mark = problem.problem_mark if problem.problem_mark is not None else problem.context_mark
    place = where if mark is None else f"{where}:{mark.line + 1}"
    said = str(problem.problem if problem.problem else problem.context)
    if r"'\t'" in said:
        return SpecError("has a tab where YAML wants spaces", where=place, hint="indent with spaces")
    if "expected a single document" in f"{problem.context} {said}":
        return SpecError("holds more than one document", where=place, hint="give each its own file")
    return SpecError(f"is not YAML: {said}", where=place)


@dataclass(frozen=True)
class _Reading:
    """One pass over the nodes of a file; collects problems rather than stopping at the first."""

    name: str
    problems: list[Problem]
    places: dict[KeyPath, str]

    def line(self, node: Node) -> str:
        return f"{self.name}:{node.start_mark.line + 1}"

    def problem(self, node: Node, message: str, hint: str | None = None) -> None:
        self.problems.append(Problem(self.line(node), message, hint))

    def value(self, node: Node, path: KeyPath, around: tuple[Node, ...] = ()) -> Any:
        """The plain value of `node`; `around` are the nodes that hold it, for an alias may point at one of them."""
        self.places.setdefault(path, self.line(node))
        if any(node is outer for outer in around):
            self.problem(node, f"{shown(path)} holds itself")
            return None
        if isinstance(node, MappingNode):
            return {
                key: self.value(child, (*path, key), (*around, node)) for key, child in self.entries(node, path)
            }
        if isinstance(node, SequenceNode):
            return [self.value(child, (*path, index), (*around, node)) for index, child in enumerate(node.value)]
        return self.scalar(node, path)  # type: ignore[arg-type]

    def entries(self, node: MappingNode, path: KeyPath) -> Iterator[tuple[str, Node]]:
        """The keys of a mapping, each once; a second one is a problem that names both lines."""
        first: dict[str, int] = {}
        for key_node, child in node.value:
            if not isinstance(key_node, ScalarNode):
                self.problem(key_node, f"{shown(path) if path else 'the file'} has a key that is not a word")
                continue
            key, line = str(key_node.value), key_node.start_mark.line + 1
            if key in first:
                lines = f"on line {line}" if first[key] == line else f"on lines {first[key]} and {line}"
                self.problem(key_node, f"{shown((*path, key))} is given twice, {lines}", "keep one of them")
                continue
            first[key] = line
            self.places[(*path, key)] = f"{self.name}:{line}"
            yield key, child

    def scalar(self, node: ScalarNode, path: KeyPath) -> Any:
        tag, text = str(node.tag).removeprefix(_TAG), str(node.value)
        if tag in ("str", "timestamp"):
            return text
        if tag == "null":
            return None
        if tag == "bool":
            return text.lower() == "true"
        if tag == "int":
            return self.whole(node, path)
        if tag == "float":
            return self.number(node, path)
        self.problem(node, f"{shown(path)} has the tag {node.tag}", "write the value without a tag")
        return None

    def whole(self, node: ScalarNode, path: KeyPath) -> int | None:
        try:
            return int(node.value, 0 if re.match(r"[-+]?0[xob]", node.value) else 10)
        except ValueError:
            message = f'{shown(path)} is "{node.value}", which is not a whole number'
            self.problem(node, message, "quote it if it is text")
            return None

    def number(self, node: ScalarNode, path: KeyPath) -> int | float | None:
        try:
            value = float(node.value)
        except ValueError:  # .inf and .nan are numbers to YAML and to nobody here
            value = math.nan
        if not math.isfinite(value):
            self.problem(node, f"{shown(path)} is {node.value}, which is not a finite number")
            return None
        return int(value) if _EXPONENT.fullmatch(node.value) else value
