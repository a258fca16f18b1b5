"""Deploy a topology that stays: what `testbed up` does."""

import json
import shutil
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from testbed.deploy.ascent import up
from testbed.deploy.records import read_deployment
from testbed.deploy.takedown import down
from testbed.errors import RunError
from testbed.experiment.deployables import KEYS_FILE, KeysAt, check_settings, live_parts, prepare_folder
from testbed.experiment.facts import find_facts
from testbed.experiment.folders import Folders
from testbed.experiment.specs import find_spec, read_model, read_spec
from testbed.journal.writer import JournalWriter
from testbed.plan.colocated import Site, plan_colocated
from testbed.plan.facts import Facts
from testbed.plan.memory import ENGINE_BYTES, EngineKvPlan, check_memory
from testbed.spec.machine import Hardware
from testbed.spec.topology import LmcacheTier, Topology
from testbed.tiers.redis import RedisKeys

_CONTEXT_TOKENS = 2048
_REQUESTS_AT_ONCE = 4


def take_down(name: str, folders: Folders, talk: Callable[[str], None]) -> None:
    """End a deployment and remove its own folder; done already is fine.

    Raises: DeployError naming what is still there.
    """
    _remove_keys(name, folders, talk)
    down(name, folders.state, talk)
    shutil.rmtree(folders.state / "sites" / name, ignore_errors=True)


def deploy_standing(
    topology: str,
    settings: Mapping[str, Any],
    hardware: str,
    folders: Folders,
    *,
    name: str | None,
    address: str | None,
    talk: Callable[[str], None],
) -> str:
    """Bring a topology up and leave it running; return a command that asks it something.

    Raises: SpecError, DeployError; RunError when the engine does not run with the settings that were asked for.
    """
    path = find_spec(topology, "topologies", beside=None, where="topology")
    loaded = read_spec(path, Topology, settings)
    machine = read_spec(find_spec(hardware, "hardware", beside=None, where="--hardware"), Hardware).value
    called = name if name is not None else loaded.value.name
    facts, _ = find_facts(read_model(loaded.value.model, str(path)), folders.cache, talk)
    facts = _without_own_ports(facts, called, folders.state)
    context = min(_CONTEXT_TOKENS, facts.model.max_model_len)
    blocks = _REQUESTS_AT_ONCE * -(-context // machine.block_size)
    kv = EngineKvPlan(blocks, machine.block_size, blocks * machine.block_size, facts.model.kv_bytes_per_token)
    folder = folders.state / "sites" / called
    tier = loaded.value.tier
    held = {"tier memory": tier.memory} if isinstance(tier, LmcacheTier) else {}
    talk(check_memory({"engine": ENGINE_BYTES, "engine KV": kv.kv_bytes, **held}, facts.machine.available_bytes))
    deployable = plan_colocated(Site(called, str(folder), loaded.value, facts, kv, context))
    events = Path(folder) / "events"
    channel = prepare_folder(deployable, events) if read_deployment(folders.state, called) is None else None
    deployment = up(deployable.plan, state=folders.state, talk=talk, address=address)
    with (
        deployment.keep_lease(),
        closing(JournalWriter(events, "driver")) as journal,
        closing(live_parts(deployable, deployment, journal, folder, channel)) as live,
    ):
        check_settings(live)
    deployment.keep()
    url = f"{deployable.engine_url}/v1/completions"
    prompt = "The capital of France is"
    body = json.dumps({"model": deployable.engine.served_name, "prompt": prompt, "max_tokens": 8, "temperature": 0})
    return f"curl -s {url} -H 'Content-Type: application/json' -d '{body}'"


def _without_own_ports(facts: Facts, name: str, state: Path) -> Facts:
    """The ports that a deployment of this name holds are not busy for it: the same `up` again makes the same plan."""
    record = read_deployment(state, name)
    if record is None:
        return facts
    own = {port for component in record.plan.components for port in component.ports}
    return replace(facts, machine=replace(facts.machine, busy_ports=facts.machine.busy_ports - own))


def _remove_keys(name: str, folders: Folders, talk: Callable[[str], None]) -> None:
    """Leave nothing of this deployment in a Redis that may be somebody else's."""
    noted = folders.state / "sites" / name / KEYS_FILE
    if not noted.is_file():
        return
    where = msgspec.json.decode(noted.read_bytes(), type=KeysAt)
    try:
        with closing(RedisKeys(where.url, where.prefix)) as keys:
            keys.remove()
    except RunError as problem:
        talk(f"keys of {name} may be left in {where.url}: {problem}")
