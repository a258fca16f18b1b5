"""Real text for prompts: the docstrings of Python's standard library.

It is on every machine, needs no download and is the same for every process of one Python version. Seeded places of it
make prompts that read like documents and that a small model answers with more than noise.
"""

import ast
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

    They are read from the sources: what another library has patched in this process makes no difference.
    Raises: DeployError where the sources of the standard library are not installed.
    """
    texts = dict.fromkeys(text for name in MODULES for text in _docstrings(name))
    return "\n\n".join(texts)


def _docstrings(module_name: str) -> Iterator[str]:
    """Of a module, its functions and classes, and the methods of those; not of classes in classes."""
    try:
        tree = ast.parse(inspect.getsource(importlib.import_module(module_name)))
    except OSError as problem:
        said = f"Python's own module {module_name} has no source to cut prompts from"
        raise DeployError(f"{said}: {problem}") from problem
    yield from _own_docstring(tree)
    for member in tree.body:
        if isinstance(member, ast.ClassDef | ast.FunctionDef):
            yield from _own_docstring(member)
        if isinstance(member, ast.ClassDef):
            for method in member.body:
                if isinstance(method, ast.FunctionDef):
                    yield from _own_docstring(method)


def _own_docstring(owner: ast.Module | ast.ClassDef | ast.FunctionDef) -> Iterator[str]:
    text = ast.get_docstring(owner)
    if text and text.strip():
        yield text
