"""From the text of a file to a checked spec, or to one error that lists all that is wrong, with lines.

Reading the file is the caller's: text comes in, a model goes out.
"""

import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError
from ruamel.yaml import YAML

from testbed.spec.settings import apply_settings, parse_setting
from testbed.spec.tree import Tree, parse_tree, refuse
from testbed.spec.wording import plain_problems

__all__ = ["Loaded", "apply_settings", "load", "parse_setting", "parse_tree", "validate"]

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True)
class Loaded(Generic[M]):
    """A checked spec, and the text that says the same: the file's own, or the one that settings made of it.

    `dropped` are the keys that fell away because a setting changed the `kind` beside them.
    """

    value: M
    text: str
    dropped: tuple[str, ...] = ()


def load(text: str, model: type[M], *, where: str, settings: Mapping[str, Any] | None = None) -> Loaded[M]:
    """Read YAML, apply `settings` (dotted path to value), and check it all against `model`.

    `where` is the name of the file as it is to stand in messages.
    Raises: SpecError
    """
    tree = parse_tree(text, where=where)
    if not settings:
        return Loaded(validate(tree, model), text)
    tree, dropped = apply_settings(tree, settings)
    return Loaded(validate(tree, model), written(tree.data), dropped)


def validate(tree: Tree, model: type[M]) -> M:
    """Check what a file says against `model`.

    Raises: SpecError with every problem of the file.
    """
    try:
        return model.model_validate(tree.data)
    except ValidationError as found:
        raise refuse(plain_problems(found.errors(include_url=False), tree, model)) from found


def written(data: Any) -> str:
    """Plain values as YAML text that reads back the same."""
    stream = io.StringIO()
    writer = YAML(typ="safe", pure=True)
    writer.default_flow_style = False
    writer.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    writer.dump(data, stream)
    return stream.getvalue()
