"""`testbed trace stats`: what a recorded trace is like, before anything is sent."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class What(StrEnum):
    """What can be done with a trace."""

    STATS = "stats"


class Format(StrEnum):
    """The kinds of trace."""

    MOONCAKE = "mooncake"
    AZURE = "azure"
    SHAREGPT = "sharegpt"
    JOURNAL = "journal"


class Unit(StrEnum):
    """What the time stamps of a Mooncake trace count."""

    MS = "ms"
    S = "s"


def trace(
    what: Annotated[What, typer.Argument(help="stats: lengths, rate over time, reuse, LRU hits by capacity.")],
    file: Annotated[Path, typer.Argument(help="Mooncake JSONL, Azure CSV, ShareGPT JSON, or the folder of a run.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    file_format: Annotated[Format | None, typer.Option("--format", help="Else told by how the file begins.")] = None,
    unit: Annotated[Unit, typer.Option("--unit", help="What Mooncake's time stamps count.")] = Unit.MS,
    capacities: Annotated[
        list[int] | None, typer.Option("--capacity", min=1, help="Tokens of an LRU cache; may be given again.")
    ] = None,
    tokenizer: Annotated[
        Path | None, typer.Option("--tokenizer", help="A model's folder, to count the tokens of conversations with.")
    ] = None,
) -> None:
    """Look at a recorded trace; nothing is sent."""
    from rich.console import Console

    from testbed.cli.talk import talk
    from testbed.experiment.traces import guess_format, look_at
    from testbed.workload.trace.tables import as_json as told_as_json
    from testbed.workload.trace.tables import as_table

    chosen = guess_format(file) if file_format is None else file_format.value
    told = look_at(file, chosen, unit.value, capacities, tokenizer)
    for warning in told.warnings:
        talk(f"warning: {warning}")
    if as_json:
        typer.echo(told_as_json(told))
    else:
        Console().print(as_table(told))
