"""The ways that the bytes of a connector's loads take, and who of several connectors loads.

Where several connectors stand side by side, the config of each holds its own `testbed.path`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from testbed.journal.events import PATH_KEY

# These copy before the engine goes on with its step; all others move bytes beside it.
_COPIES_IN_THE_STEP = frozenset({"LMCacheMPConnector", "ExampleConnector"})


@dataclass(frozen=True)
class Way:
    """How loads go: the path of their bytes, and whether these move while the engine goes on."""

    path: str
    background: bool


def ways_of(name: str, extra: Mapping[str, Any]) -> tuple[Way, ...]:
    """One way of a connector by its class's name and its extra settings, or one for each of its parts.

    Raises: KeyError where a path is not given.
    """
    if "connectors" not in extra:
        return (Way(extra[PATH_KEY], name not in _COPIES_IN_THE_STEP),)
    parts = extra["connectors"]
    return tuple(way for one in parts for way in ways_of(one["kv_connector"], one["kv_connector_extra_config"]))


def way_of(connector: Any, ways: tuple[Way, ...], engine_id: str) -> Way:
    """The way of one request's load: that of the part which was first to promise anything."""
    if len(ways) == 1:
        return ways[0]
    chosen: Mapping[str, int] = connector._requests_to_connector
    return ways[chosen[engine_id]]
