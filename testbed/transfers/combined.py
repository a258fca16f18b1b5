"""A transfer from prefill to decode together with a tier: vLLM's MultiConnector, with the probe around the whole of it.

The order decides: a request that carries transfer parameters loads by the first part, any other by the second; saves go
to both. The parts themselves can't be probed: the engine looks their classes up by name, among its own alone.
"""

from collections.abc import Mapping
from typing import Any

from testbed.journal.events import ORDERS_KEY
from testbed.spec.topology import LoadFailure

CONNECTOR = "MultiConnector"
PREFIX = "Probed"


def combined_config(
    first: Mapping[str, Any], second: Mapping[str, Any], failure: LoadFailure, orders_path: str
) -> dict[str, Any]:
    """What an engine gets as `--kv-transfer-config`, out of what it would get for either part alone."""
    return {
        "kv_connector": PREFIX + CONNECTOR,
        "kv_connector_module_path": "testbed.probe.connector",
        "kv_role": "kv_both",
        "kv_load_failure_policy": failure.policy,
        "kv_connector_extra_config": {"connectors": [_part(first), _part(second)], ORDERS_KEY: orders_path},
    }


def _part(config: Mapping[str, Any]) -> dict[str, Any]:
    """The plain connector; how a failed load is dealt with is read at the top alone."""
    plain = {key: config[key] for key in config if key not in ("kv_connector_module_path", "kv_load_failure_policy")}
    return plain | {"kv_connector": config["kv_connector"].removeprefix(PREFIX)}
