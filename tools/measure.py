#!/usr/bin/env python3
"""Measure the shape of a Python source tree: lengths, docstrings, and smells.

    python measure.py TREE [TREE ...]            one table row per tree
    python measure.py --json TREE                the same, as JSON
    python measure.py --check LIMITS.json TREE   exit 1 where a limit is passed
    python measure.py --worst 10 TREE            also the ten longest functions

Only the standard library is used, and nothing in the tree is imported: each
file is parsed with `ast`. Lengths are physical lines, from the `def` line (its
decorators not counted) to the last line of the body, docstring and blank lines
included; a nested function is counted by itself and inside its parent. A file's
length is its number of physical lines. Percentiles use the nearest-rank method.
A function is public when no part of its dotted name starts with an underscore
and it is not nested in another function. Smells are counts to look at, not
proofs: `--smells` lists where each one is.

    bare_except       `except:`
    broad_except      `except Exception:` or `except BaseException:`
    swallowed_except  an except whose body is only `pass`, `continue` or `...`
    sleep_calls       time/asyncio/anyio/trio/gevent `.sleep(...)`
    or_zero           `value or 0`: no value has become a zero
    get_zero          `mapping.get(key, 0)`: the same
    vague_modules     files named utils, helpers, common, manager, factory, base, misc
    vague_classes     classes named ...Manager, ...Factory, ...Helper, ...Utils
    mutable_globals   a lower-case module name bound to a list, dict or set literal

A LIMITS.json names figures and their largest allowed value, for example
    {"func_p95_lines": 45, "file_max_lines": 400, "bare_except": 0}
A key that starts with "min_" gives a smallest allowed value instead:
    {"min_public_docstring_share": 0.9}
"""

import argparse
import ast
import json
import math
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SKIPPED_FOLDERS = {
    ".git", ".venv", "venv", "node_modules", "__pycache__", "build", "dist",
    ".mypy_cache", ".ruff_cache", ".pytest_cache", "_vendor", "vendor",
}
VAGUE_NAMES = {"utils", "util", "helpers", "helper", "misc", "common", "manager", "factory", "base"}


@dataclass
class Function:
    file: str
    name: str
    line: int
    lines: int
    public: bool
    documented: bool
    parameters: int
    annotated: bool


@dataclass
class Tree:
    """All that was read from one tree; `figures` reduces it to numbers."""

    files: dict[str, int] = field(default_factory=dict)
    functions: list[Function] = field(default_factory=list)
    classes: list[tuple[str, str, int, bool]] = field(default_factory=list)
    modules_documented: int = 0
    unparsed: list[str] = field(default_factory=list)
    smells: dict[str, list[str]] = field(default_factory=dict)

    def smell(self, kind: str, where: str) -> None:
        self.smells.setdefault(kind, []).append(where)


SMELL_KINDS = (
    "bare_except", "broad_except", "swallowed_except", "sleep_calls",
    "print_calls", "or_zero", "get_zero", "vague_modules", "vague_classes", "mutable_globals",
)


def read_tree(root: Path, skip: set[str]) -> Tree:
    tree = Tree()
    paths = [root] if root.is_file() else sorted(root.rglob("*.py"))
    for path in paths:
        relative = path.relative_to(root) if root.is_dir() else Path(path.name)
        if any(part in skip for part in relative.parts[:-1]) or path.is_symlink():
            continue
        read_file(path, relative.as_posix(), tree)
    return tree


def read_file(path: Path, name: str, tree: Tree) -> None:
    text = path.read_text(encoding="utf-8", errors="replace")
    try:
        module = ast.parse(text)
    except (SyntaxError, ValueError):
        tree.unparsed.append(name)
        return
    tree.files[name] = len(text.splitlines())
    tree.modules_documented += ast.get_docstring(module) is not None
    if path.stem.lower() in VAGUE_NAMES:
        tree.smell("vague_modules", name)
    for node in module.body:
        read_global(node, name, tree)
    visit(module, name, "", True, tree)


def visit(node: ast.AST, file: str, prefix: str, public: bool, tree: Tree) -> None:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            read_function(child, file, prefix, public, tree)
            visit(child, file, f"{prefix}{child.name}.", False, tree)
        elif isinstance(child, ast.ClassDef):
            shown = public and not child.name.startswith("_")
            documented = ast.get_docstring(child) is not None
            tree.classes.append((file, prefix + child.name, child.lineno, documented))
            if child.name.lower().endswith(("manager", "factory", "helper", "helpers", "utils")):
                tree.smell("vague_classes", f"{file}:{child.lineno} {child.name}")
            visit(child, file, f"{prefix}{child.name}.", shown, tree)
        else:
            read_statement(child, file, tree)
            visit(child, file, prefix, public, tree)


def read_function(node: ast.FunctionDef | ast.AsyncFunctionDef, file: str, prefix: str,
                  public: bool, tree: Tree) -> None:
    arguments = node.args.posonlyargs + node.args.args + node.args.kwonlyargs
    named = [argument for argument in arguments if argument.arg not in ("self", "cls")]
    tree.functions.append(Function(
        file=file,
        name=prefix + node.name,
        line=node.lineno,
        lines=(node.end_lineno if node.end_lineno is not None else node.lineno) - node.lineno + 1,
        public=public and not node.name.startswith("_"),
        documented=ast.get_docstring(node) is not None,
        parameters=len(named),
        annotated=all(argument.annotation for argument in named) and node.returns is not None,
    ))


def read_statement(node: ast.AST, file: str, tree: Tree) -> None:
    where = f"{file}:{getattr(node, 'lineno', 0)}"
    if isinstance(node, ast.ExceptHandler):
        caught = ast.unparse(node.type) if node.type else None
        if caught is None:
            tree.smell("bare_except", where)
        elif caught in ("Exception", "BaseException"):
            tree.smell("broad_except", where)
        if all(isinstance(line, (ast.Pass, ast.Continue)) or is_ellipsis(line) for line in node.body):
            tree.smell("swallowed_except", f"{where} {caught}")
    elif isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or) and is_zero(node.values[-1]):
        tree.smell("or_zero", where)
    elif isinstance(node, ast.Call):
        called = ast.unparse(node.func)
        if called.endswith(".get") and len(node.args) == 2 and is_zero(node.args[1]):
            tree.smell("get_zero", where)
        if called in ("time.sleep", "asyncio.sleep", "anyio.sleep", "trio.sleep", "gevent.sleep", "sleep"):
            tree.smell("sleep_calls", where)
        elif called == "print":
            tree.smell("print_calls", where)


def read_global(node: ast.AST, file: str, tree: Tree) -> None:
    """Count a lower-case module name bound to a list, dict or set literal."""
    if not isinstance(node, (ast.Assign, ast.AnnAssign)):
        return
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    if isinstance(node.value, (ast.List, ast.Dict, ast.Set)):
        for target in targets:
            if isinstance(target, ast.Name) and target.id != "__all__" and not target.id.isupper():
                tree.smell("mutable_globals", f"{file}:{node.lineno} {target.id}")


def is_ellipsis(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and node.value.value is Ellipsis


def is_zero(node: ast.AST) -> bool:
    """True for a written 0 or 0.0, not for False."""
    return isinstance(node, ast.Constant) and type(node.value) in (int, float) and node.value == 0


def percentile(values: list[int], percent: float) -> int | None:
    """Nearest-rank percentile; None for no values, never 0."""
    if not values:
        return None
    ordered = sorted(values)
    return ordered[max(0, math.ceil(percent / 100 * len(ordered)) - 1)]


def share(part: int, whole: int) -> float | None:
    return round(part / whole, 3) if whole else None


def figures(tree: Tree) -> dict[str, Any]:
    lengths = [function.lines for function in tree.functions]
    sizes = list(tree.files.values())
    public = [function for function in tree.functions if function.public]
    longest = max(tree.functions, key=lambda function: function.lines, default=None)
    largest = max(tree.files, key=lambda name: tree.files[name], default=None)
    return {
        "files": len(tree.files),
        "lines": sum(sizes),
        "functions": len(lengths),
        "classes": len(tree.classes),
        "func_median_lines": percentile(lengths, 50),
        "func_p95_lines": percentile(lengths, 95),
        "func_max_lines": longest and longest.lines,
        "func_longest": longest and f"{longest.file}:{longest.line} {longest.name}",
        "file_median_lines": percentile(sizes, 50),
        "file_p95_lines": percentile(sizes, 95),
        "file_max_lines": max(sizes, default=None),
        "file_longest": largest,
        "params_p95": percentile([function.parameters for function in tree.functions], 95),
        "params_max": max((function.parameters for function in tree.functions), default=None),
        "module_docstring_share": share(tree.modules_documented, len(tree.files)),
        "class_docstring_share": share(sum(c[3] for c in tree.classes), len(tree.classes)),
        "public_functions": len(public),
        "public_docstring_share": share(sum(f.documented for f in public), len(public)),
        "annotated_share": share(sum(f.annotated for f in tree.functions), len(tree.functions)),
        **{kind: len(tree.smells.get(kind, ())) for kind in SMELL_KINDS},
        "unparsed": len(tree.unparsed),
    }


def broken_limits(measured: dict[str, Any], limits: dict[str, Any]) -> list[str]:
    """One sentence for each limit that the tree does not keep."""
    broken = []
    for key, limit in limits.items():
        lowest = key.startswith("min_")
        name = key.removeprefix("min_")
        if name not in measured:
            raise SystemExit(f"measure.py: no figure is named {name!r}; known: {', '.join(measured)}")
        value = measured[name]
        if value is None or (value < limit if lowest else value > limit):
            word = "at least" if lowest else "at most"
            broken.append(f"{name} is {value}, must be {word} {limit}")
    return broken


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Measure the shape of a Python source tree.")
    parser.add_argument("trees", nargs="+", type=Path)
    parser.add_argument("--json", action="store_true", help="print JSON, not a table")
    parser.add_argument("--check", type=Path, metavar="LIMITS.json")
    parser.add_argument("--worst", type=int, default=0, metavar="N", help="list the N longest functions")
    parser.add_argument("--smells", action="store_true", help="list where each smell was seen")
    parser.add_argument("--skip", action="append", default=[], metavar="FOLDER")
    options = parser.parse_args(arguments)

    results, broken = {}, []
    for root in options.trees:
        if not root.exists():
            raise SystemExit(f"measure.py: {root} does not exist")
        tree = read_tree(root, SKIPPED_FOLDERS | set(options.skip))
        results[str(root)] = figures(tree)
        if options.check:
            found = broken_limits(results[str(root)], json.loads(options.check.read_text()))
            broken += [f"{root}: {sentence}" for sentence in found]
        if not options.json:
            report(root, tree, results[str(root)], options)
    if options.json:
        print(json.dumps(results, indent=2))
    for sentence in broken:
        print(sentence, file=sys.stderr)
    return 1 if broken else 0


def report(root: Path, tree: Tree, measured: dict[str, Any], options: argparse.Namespace) -> None:
    print(f"\n{root}")
    for name, value in measured.items():
        print(f"  {name:<24} {value}")
    if options.worst:
        print(f"  longest {options.worst} functions:")
        for function in sorted(tree.functions, key=lambda f: -f.lines)[:options.worst]:
            print(f"    {function.lines:>5}  {function.file}:{function.line} {function.name}")
    if options.smells:
        for kind in SMELL_KINDS:
            for where in tree.smells.get(kind, ()):
                print(f"    {kind}: {where}")


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except BrokenPipeError:  # the reader, such as `head`, has left
        sys.exit(1)
