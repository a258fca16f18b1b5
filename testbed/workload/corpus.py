"""Real text for prompts: the docstrings of Python's standard library.

It is on every machine, needs no download and is the same for every process of one Python version. Seeded places of it
make prompts that read like documents and that a small model answers with more than noise.
"""

import importlib
import inspect
from collections.abc import Iterator

from testbed.errors import DeployError

MODULES = (
    "argparse", "ast", "bdb", "calendar", "cmd", "code", "codecs", "collections", "configparser", "contextlib", "csv",
    "dataclasses", "datetime", "difflib", "dis", "doctest", "email.message", "email.policy", "enum", "fileinput",
    "fractions", "functools", "gettext", "heapq", "html.parser", "http.cookiejar", "inspect", "ipaddress", "json",
    "logging", "logging.handlers", "mimetypes", "optparse", "pathlib", "pdb", "pickle", "pickletools", "pkgutil",
    "pprint", "queue", "random", "re", "shelve", "shlex", "shutil", "statistics", "string", "tarfile", "tempfile",
    "textwrap", "timeit", "tokenize", "traceback", "unittest.case", "unittest.mock", "urllib.parse", "urllib.request",
    "uuid", "weakref", "zipfile",
)
"""Written in Python, on every platform, and rich in prose."""


def stdlib_text() -> str:
    """The docstrings of `MODULES` in a fixed order, each once: about 500 kB.

    Raises: DeployError when Python runs with -OO, which drops docstrings.
    """
    texts = dict.fromkeys(text for name in MODULES for text in _docstrings(name))
    if not texts:
        raise DeployError("this Python has no docstrings to cut prompts from", hint="start it without -OO")
    return "\n\n".join(texts)


def _docstrings(module_name: str) -> Iterator[str]:
    """Of a module, its functions and classes, and the methods of those; not of classes in classes."""
    module = importlib.import_module(module_name)
    yield from _own_docstring(module)
    for member in _members(module, module_name):
        yield from _own_docstring(member)
        if inspect.isclass(member):
            for method in filter(inspect.isfunction, _members(member, module_name)):
                yield from _own_docstring(method)


def _members(owner: object, module_name: str) -> Iterator[object]:
    for _, member in sorted(vars(owner).items()):
        documented = inspect.isclass(member) or inspect.isfunction(member)
        if documented and getattr(member, "__module__", None) == module_name:
            yield member


def _own_docstring(owner: object) -> Iterator[str]:
    """The docstring written at `owner` itself, not one that it inherits."""
    text = vars(owner).get("__doc__") if inspect.isclass(owner) else getattr(owner, "__doc__", None)
    if isinstance(text, str) and text.strip():
        yield inspect.cleandoc(text)
