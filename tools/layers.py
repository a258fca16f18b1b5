"""Reads the imports of the whole tree, without importing anything, and holds the rules between its rooms.

The table, the products and the rules of purity are those of the design; each is data below, and a test reads the tree.
"""

import ast
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

# A room may import what stands beside it, and itself; `journal.events` is that module alone.
ROOMS: Mapping[str, frozenset[str]] = {
    room: frozenset(allowed.split())
    for room, allowed in {
        "spec": "",
        "labs": "",
        "journal": "spec",
        "workload": "spec",
        "bounds": "spec",
        "engines": "spec bounds journal",
        "tiers": "spec bounds journal",
        "transfers": "spec bounds journal",
        "plan": "spec workload bounds engines tiers transfers",
        "probe": "journal.events journal.writer",
        "router": "spec journal workload transfers bounds",
        "drive": "spec journal workload",
        "observe": "spec journal workload engines tiers transfers",
        "stub": "spec journal workload",
        "failure_injection": "spec plan journal probe.orders",
        "deploy": "spec plan engines tiers transfers journal",
        "calibrate": "spec bounds engines tiers drive stub journal",
        "metrics": "spec journal bounds",
        "checks": "spec journal bounds metrics",
        "report": "spec journal metrics checks bounds",
        "experiment": (
            "spec labs journal workload bounds engines tiers transfers plan probe router drive observe stub "
            "failure_injection deploy calibrate metrics checks report"
        ),
        "cli": (
            "spec labs journal workload bounds engines tiers transfers plan probe router drive observe stub "
            "failure_injection deploy calibrate metrics checks report experiment"
        ),
    }.items()
}
# Anyone may import these; they import the standard library alone, and each other.
GROUND = frozenset({"clock", "errors", "missing"})
# `testbed/__init__.py` holds the version, `testbed/__main__.py` starts the command line.
OUTSIDE = {"": frozenset[str](), "__main__": frozenset({"cli"})}

PRODUCTS: Mapping[str, frozenset[str]] = {
    "ray": frozenset({"deploy"}),
    "vllm": frozenset({"engines", "probe"}),
    **dict.fromkeys(("lmcache", "mooncake", "nixl", "redis"), frozenset({"tiers", "transfers", "probe"})),
}
# Names of products' metrics and configuration keys, as they stand in text that a program reads.
PRODUCT_KEYS = re.compile(r"(?:vllm:|lmcache[:.]|lmcache_mp|mooncake_master|kv_connector)\w*")
PRODUCT_KEY_ROOMS = frozenset({"engines", "tiers", "transfers", "probe"})

PURE = frozenset({"spec", "workload", "bounds", "plan", "metrics", "checks", "report", "labs"})
IMPURE_MODULES = frozenset({
    "socket", "ssl", "http", "urllib.request", "httpx", "aiohttp", "requests", "urllib3", "subprocess", "threading",
    "asyncio", "time", "multiprocessing", "concurrent", "selectors", "signal", "secrets",
})
IMPURE_CALLS = re.compile(
    r"(?:.*\.)?open|os\.(?:getenv|urandom|getcwd)|uuid\.uuid[14]"
    r"|(?:np\.|numpy\.)?random\.(?!Random$|SystemRandom$|Generator$|SeedSequence$|PCG64$|default_rng$|Philox$)\w+"
    r"|(?:datetime\.)?(?:datetime|date)\.(?:now|utcnow|today)"
    r"|.*\.(?:read_text|read_bytes|write_text|write_bytes)"
)
SEEDED = re.compile(r"(?:(?:np|numpy)\.)?random\.(?:Random|default_rng|SeedSequence|PCG64)")

CLOCK_READS = re.compile(r"time\.(?:monotonic|perf_counter|time|process_time)(?:_ns)?")
SLEEPS = re.compile(r"(?:time|asyncio|anyio)\.sleep")
CLOCK_FILES = re.compile(r"testbed/clock\.py|testbed/journal/writer\.py|testbed/probe/.*")
CLIENTS = re.compile(r"(?:httpx\.)?AsyncClient|httpx\.Client|(?:aiohttp\.)?ClientSession|(?:urllib\.request\.)?urlopen")

JOURNAL_ALONE = frozenset({"journal.events", "journal.writer"})


@dataclass(frozen=True)
class Source:
    """One file: its path from the repository's root, and its text."""

    path: str
    text: str

    @property
    def module(self) -> str:
        """The dotted name, without `testbed.`: `spec.load`, `failure_injection.fault`."""
        dotted = self.path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        return "" if dotted == "testbed" else dotted.removeprefix("testbed.")

    @property
    def room(self) -> str:
        """The first part of the module's name."""
        return self.module.partition(".")[0]


@dataclass(frozen=True)
class Import:
    """One imported module, wherever in the file: at the top, in a function, or under TYPE_CHECKING."""

    line: int
    module: str


@cache
def nodes_of(source: Source) -> tuple[ast.AST, ...]:
    """All that stands in a file; each rule reads it, and it is parsed once."""
    return tuple(ast.walk(ast.parse(source.text)))


@cache
def imports_of(source: Source) -> list[Import]:
    """Every import of a file; `from a import b` gives a.b, for b may be a module."""
    found: list[Import] = []
    for node in nodes_of(source):
        if isinstance(node, ast.Import):
            found += [Import(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [Import(node.lineno, f"{_from(node, source)}.{alias.name}") for alias in node.names]
    return found


def _from(node: ast.ImportFrom, source: Source) -> str:
    """The absolute name of what a `from` import names."""
    stated = "" if node.module is None else node.module
    if node.level == 0:
        return stated
    package = source.path.split("/")[: -node.level]
    return ".".join([*package, stated] if stated else package)


def violations(sources: Iterable[Source]) -> list[str]:
    """One sentence for each broken rule, with file and line."""
    files = list(sources)
    found = [line for source in files for rule in RULES for line in rule(source)]
    return found + [f"import cycle: {' -> '.join(cycle)}" for cycle in cycles(files)]


def _ours(name: str) -> str | None:
    """The part of a module's name that the table speaks of, or None for what is not ours."""
    if name.startswith("testbed."):
        return name.removeprefix("testbed.")
    return name if name.split(".")[0] == "failure_injection" else None


def room_rule(source: Source) -> Iterator[str]:
    """Only what stands in the table may be imported from another room."""
    if source.module in GROUND:
        return
    if source.room not in ROOMS and source.room not in OUTSIDE:
        yield f"{source.path}:1: {source.room} is no room of the table"
        return
    allowed = {**ROOMS, **OUTSIDE}[source.room]
    for each in imports_of(source):
        ours = _ours(each.module)
        if ours is None or ours == "__version__" or ours.split(".")[0] in {*GROUND, source.room}:
            continue
        if not any(ours == name or ours.startswith(f"{name}.") for name in allowed):
            yield f"{source.path}:{each.line}: {source.room} may not import {ours}"


def light_rule(source: Source) -> Iterator[str]:
    """Events and writer, which the engine loads, import msgspec and the standard library; the ground the latter."""
    if source.module not in JOURNAL_ALONE | GROUND:
        return
    allowed = {"msgspec", *_standard()} if source.module in JOURNAL_ALONE else _standard()
    for each in imports_of(source):
        ours = _ours(each.module)
        fine = each.module.split(".")[0] in allowed if ours is None else _is_light(source, ours)
        if not fine:
            yield f"{source.path}:{each.line}: {source.module} may not import {each.module}"


def _is_light(source: Source, ours: str) -> bool:
    if source.module in GROUND:
        return ours.split(".")[0] in GROUND
    return ours.startswith("journal.events.")


def _standard() -> frozenset[str]:
    return frozenset(sys.stdlib_module_names)


def product_rule(source: Source) -> Iterator[str]:
    """A product is imported, and its keys are spelt, only in its rooms."""
    for each in imports_of(source):
        product = each.module.split(".")[0]
        if product in PRODUCTS and source.room not in PRODUCTS[product]:
            yield f"{source.path}:{each.line}: {source.room} may not import {product}"
    if source.room in PRODUCT_KEY_ROOMS:
        return
    for node in nodes_of(source):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and PRODUCT_KEYS.fullmatch(node.value):
            yield f"{source.path}:{node.lineno}: {source.room} may not spell {node.value}"


def purity_rule(source: Source) -> Iterator[str]:
    """Pure rooms see no process, socket, file, clock or chance that is not passed in."""
    if source.room not in PURE:
        return
    for each in imports_of(source):
        if any(each.module == name or each.module.startswith(f"{name}.") for name in IMPURE_MODULES):
            yield f"{source.path}:{each.line}: {source.room} is pure and may not import {each.module}"
    for node in nodes_of(source):
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "os.environ":
            yield f"{source.path}:{node.lineno}: {source.room} is pure and may not read os.environ"
        elif isinstance(node, ast.Call) and _is_impure(node):
            yield f"{source.path}:{node.lineno}: {source.room} is pure and may not call {ast.unparse(node.func)}"


def _is_impure(node: ast.Call) -> bool:
    called = ast.unparse(node.func)
    # A template that lies in the package is part of the program.
    is_resource = called.startswith(("files(", "resources.files(", "importlib.resources.files("))
    unseeded = SEEDED.fullmatch(called) is not None and not (node.args or node.keywords)
    return unseeded or (IMPURE_CALLS.fullmatch(called) is not None and not is_resource)


def clock_rule(source: Source) -> Iterator[str]:
    """The clock is read and slept by in one place, and each client has a limit."""
    renamed = {"time", "asyncio"}
    for each in imports_of(source):
        root, _, name = each.module.partition(".")
        if root in renamed and name and source.path != "testbed/clock.py":
            yield from _clock_use(source, each.line, each.module)
    for node in nodes_of(source):
        if isinstance(node, ast.Attribute):
            yield from _clock_use(source, node.lineno, ast.unparse(node))
        elif isinstance(node, ast.Call) and _is_without_limit(node):
            yield f"{source.path}:{node.lineno}: {ast.unparse(node.func)} needs an explicit timeout"


def _is_without_limit(node: ast.Call) -> bool:
    is_client = CLIENTS.fullmatch(ast.unparse(node.func)) is not None
    return is_client and "timeout" not in {keyword.arg for keyword in node.keywords}


def _clock_use(source: Source, line: int, name: str) -> Iterator[str]:
    if SLEEPS.fullmatch(name) and source.path != "testbed/clock.py":
        yield f"{source.path}:{line}: {name} is called in testbed/clock.py alone"
    if CLOCK_READS.fullmatch(name) and not CLOCK_FILES.fullmatch(source.path):
        yield f"{source.path}:{line}: {name} is read in testbed/clock.py alone"


def fault_rule(source: Source) -> Iterator[str]:
    """One fault file imports no other."""
    if not source.module.startswith("failure_injection.faults."):
        return
    for each in imports_of(source):
        if each.module.startswith("failure_injection.faults"):
            yield f"{source.path}:{each.line}: a fault may not import {each.module}"


RULES = (room_rule, light_rule, product_rule, purity_rule, clock_rule, fault_rule)


def cycles(sources: Iterable[Source]) -> list[list[str]]:
    """Each group of modules that import each other in a circle, smallest name first."""
    files = list(sources)
    modules = {source.module for source in files}
    edges = {source.module: _targets(source, modules) for source in files}
    reach = {module: _reachable(module, edges) for module in edges}
    groups = {
        tuple(sorted(other for other in reach[module] if module in reach[other]))
        for module in edges if module in reach[module]
    }
    return [list(group) for group in sorted(groups)]


def _targets(source: Source, modules: set[str]) -> set[str]:
    found = set()
    for each in imports_of(source):
        ours = _ours(each.module)
        if ours is not None:
            # What is imported from a package may be a module of it; if not, it is the package's own.
            target = ours if ours in modules else ours.rpartition(".")[0]
            found |= {target} & (modules - {"", source.module})
    return found


def _reachable(start: str, edges: Mapping[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    todo = set(edges[start])
    while todo:
        module = todo.pop()
        seen.add(module)
        todo |= edges[module] - seen
    return seen
