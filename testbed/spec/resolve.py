"""Which file a name means. Pure arithmetic on paths: whether one exists, the caller asks the disk."""

from collections.abc import Iterable
from pathlib import PurePath
from typing import Literal

from testbed.errors import SpecError
from testbed.spec.suggest import did_you_mean

Kind = Literal["topologies", "experiments", "workloads", "models", "hardware", "slo"]


def candidates(
    name: str, kind: Kind, *, beside: PurePath | None, roots: Iterable[PurePath]
) -> tuple[PurePath, ...]:
    """The files that `name` may mean, the first that exists wins.

    `beside` is the folder of the file that says the name, None for a flag. `roots` hold `topologies/` and `configs/`:
    the working tree, then the packaged copies. A name with a slash or an ending is a path: it is looked up next to
    the file that says it, then as it stands.
    """
    if _is_path(name):
        path = PurePath(name)
        return (path,) if beside is None or path.is_absolute() else (beside / path, path)
    folders = [root / folder_of(kind) for root in roots]
    return tuple(folder / f"{name}.yaml" for folder in ([] if beside is None else [beside]) + folders)


def folder_of(kind: Kind) -> PurePath:
    """Where files of a kind stand below a root."""
    return PurePath("topologies") if kind == "topologies" else PurePath("configs", kind)


def not_found(name: str, kind: Kind, looked: Iterable[PurePath], known: Iterable[str], *, where: str) -> SpecError:
    """The error for a name that no candidate has. `known` are the names that there are, without their ending."""
    names = sorted(set(known))
    tried = ", ".join(dict.fromkeys(str(path) for path in looked))
    message = f'there is no {folder_of(kind)} file "{name}"; looked at {tried}'
    hint = did_you_mean(name, names)
    return SpecError(message, where=where, hint=hint if hint else f"known are {', '.join(names)}" if names else None)


def _is_path(name: str) -> bool:
    return "/" in name or name.endswith((".yaml", ".yml"))
