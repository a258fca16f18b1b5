"""Refuse what several parts of a spec say together, each problem at the key that says it."""

from collections.abc import Sequence

from pydantic import ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from testbed.spec.tree import KeyPath

Refusal = tuple[KeyPath, str]
"""The key that is to be named, and what is wrong with it."""


def refusal(model: str, problems: Sequence[Refusal]) -> ValidationError:
    """The error to raise in a validator of a whole model: the file's line is then that of each key."""
    return ValidationError.from_exception_data(model, [
        InitErrorDetails(type=PydanticCustomError("value_error", "{error}", {"error": message}), loc=path, input=None)
        for path, message in problems
    ])
