"""`testbed metrics`: print the declarations of all metrics."""

import json
from typing import Annotated

import typer


def metrics(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List every metric with its unit, meaning and the events that it is computed from."""
    from testbed.metrics.table import declared_metrics

    declared = declared_metrics()
    if as_json:
        rows = [
            {
                "name": one.name,
                "unit": one.unit,
                "better": one.better,
                "per": one.per,
                "needs": list(one.needs),
                "meaning": one.meaning,
            }
            for one in declared
        ]
        typer.echo(json.dumps(rows, indent=2))
        return
    for one in declared:
        typer.echo(
            f"{one.name} [{one.unit}] per {one.per}; {one.better} is better\n    {one.meaning}"
        )
