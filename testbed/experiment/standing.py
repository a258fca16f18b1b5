"""Deploy a topology that stays: what `testbed up` does."""

import json
import secrets
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from testbed.deploy.ascent import up
from testbed.deploy.records import read_deployment
from testbed.deploy.takedown import down
from testbed.errors import RunError, TestbedError
from testbed.experiment.arm import warm_up_engines
from testbed.experiment.deployables import KEYS_FILE, KeysAt, check_settings, live_parts, prepare_folder
from testbed.experiment.facts import model_folder
from testbed.experiment.folders import Folders
from testbed.experiment.handoff_proof import WARM_UP, proof_prompt, prove_handoff
from testbed.experiment.live import Live
from testbed.experiment.topologies import plan_found, read_topology
from testbed.journal.writer import JournalWriter
from testbed.plan.site import Deployable
from testbed.plan.standing import Machines
from testbed.tiers.redis import RedisKeys


def take_down(name: str, folders: Folders, talk: Callable[[str], None]) -> None:
    """End a deployment and remove its own folder; done already is fine.

    Raises: DeployError naming what is still there.
    """
    _remove_keys(name, folders, talk)
    down(name, folders.state, talk)
    shutil.rmtree(folders.state / "sites" / name, ignore_errors=True)


@dataclass(frozen=True)
class Asked:
    """What a user asks for: a topology with settings on a hardware profile; `name` is else the topology's own.

    `address` is that of a Ray cluster to join.
    """

    topology: str
    settings: Mapping[str, Any]
    hardware: str
    name: str | None = None
    address: str | None = None
    machines: Machines = field(default_factory=Machines)


def deploy_standing(asked: Asked, folders: Folders, talk: Callable[[str], None]) -> str:
    """Bring a topology up and leave it running; return a command that asks it something.

    Raises: SpecError, DeployError; RunError when an engine does not run with the settings that were asked for, or
    prefill and decode are apart in name only. Nothing is left running then.
    """
    found = read_topology(asked.topology, asked.settings, asked.hardware)
    called = asked.name if asked.name is not None else found.topology.name
    standing, facts = plan_found(found, called, folders, asked.machines, talk)
    if found.model.source == "hub":
        model_folder(found.model, folders.cache, talk)  # says what to do
    for line in standing.sums:
        talk(line)
    deployable = standing.deployable
    events = Path(deployable.site.events_folder)
    there = read_deployment(folders.state, called) is not None
    channel = None if there else prepare_folder(deployable, events)
    deployment = up(deployable.plan, state=folders.state, talk=talk, address=asked.address)
    try:
        with (
            deployment.keep_lease(),
            closing(JournalWriter(events, "driver")) as journal,
            closing(live_parts(deployable, deployment, journal, events.parent, channel)) as live,
        ):
            check_settings(live)
            _make_ready(live, facts.tokens, talk)
        deployment.keep()
    except TestbedError:
        if not there:
            take_down(called, folders, talk)
        raise
    return curl(deployable)


def _make_ready(live: Live, tokens: Sequence[int], talk: Callable[[str], None]) -> None:
    """Let each engine of several answer once, and prove that KV travels where it must."""
    if len(live.engines) == 1:
        return
    name = f"up-{secrets.token_hex(3)}"
    warm_up_engines(live.engines, proof_prompt(live.deployable, tokens, WARM_UP), name, talk)
    for handed in prove_handoff(live, tokens, name):
        talk(
            f"handed over: of a prompt of {handed.prompt_tokens} tokens decode loaded {handed.loaded_tokens}"
            f" ({handed.load_bytes} bytes) and computed {handed.computed_tokens}; max_tokens {handed.asked} gave"
            f" {handed.answered}"
        )


def curl(deployable: Deployable) -> str:
    """A command that asks a deployment something."""
    url = f"{deployable.client_url}/v1/completions"
    prompt = "The capital of France is"
    body = json.dumps({"model": deployable.served_name, "prompt": prompt, "max_tokens": 8, "temperature": 0})
    return f"curl -s {url} -H 'Content-Type: application/json' -d '{body}'"


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
