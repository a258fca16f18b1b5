"""From the blocks of a plan to deployments: their plans, their folders, and the parts that can be asked."""

import shutil
from dataclasses import replace
from pathlib import Path

import msgspec

from testbed.deploy.deployment import Deployment
from testbed.engines.api import EngineApi, wanted_settings
from testbed.errors import RunError
from testbed.experiment.channel import Channel
from testbed.experiment.live import Live
from testbed.journal.writer import JournalWriter
from testbed.plan.colocated import ENGINE, Deployable, Site, plan_colocated
from testbed.plan.experiment import ExperimentPlan
from testbed.plan.facts import Facts
from testbed.probe.orders import Orders
from testbed.spec.topology import LmcacheTier, NoTier, Topology
from testbed.tiers.lmcache import LmcacheServer
from testbed.tiers.redis import RedisKeys

KEYS_FILE = "keys.json"
_GOLDEN_REQUESTS_AT_ONCE = 6


def block_deployable(plan: ExperimentPlan, number: int, name: str, folder: Path, facts: Facts) -> Deployable:
    """The deployment of one block of arms."""
    topology = plan.blocks[number][0].topology
    return plan_colocated(Site(name, str(folder), topology, facts, plan.kv, plan.max_model_len))


def golden_deployable(plan: ExperimentPlan, name: str, folder: Path, facts: Facts) -> Deployable:
    """The same engine without tier and prefix cache, with room for several of the longest requests."""
    topology = plan.blocks[0][0].topology
    plain = topology.model_copy(update={"tier": NoTier(kind="none")})
    blocks = _GOLDEN_REQUESTS_AT_ONCE * (plan.max_model_len // plan.kv.block_size)
    kv = replace(plan.kv, num_blocks=blocks)
    return plan_colocated(Site(name, str(folder), plain, facts, kv, plan.max_model_len, prefix_caching=False))


class KeysAt(msgspec.Struct, frozen=True):
    """Where a deployment keeps keys in a Redis: written down, so that they can be removed by whoever takes it down."""

    url: str
    prefix: str


def prepare_folder(deployable: Deployable, journal: Path) -> Channel | None:
    """Make what the engine expects to find: the model under its own name, and the probe's orders."""
    site = deployable.site
    link = Path(site.model_path)
    link.parent.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(site.facts.model.folder)
    if deployable.tier is None:
        return None
    if deployable.tier.redis_url is not None:
        at = KeysAt(deployable.tier.redis_url, _key_prefix(deployable))
        Path(site.folder, KEYS_FILE).write_bytes(msgspec.json.encode(at))
    failure = site.topology.on_load_failure
    orders = Orders(
        journal=str(journal),
        arm="",
        repetition=0,
        attempts=failure.attempts,
        load_deadline_s=_deadline_s(site.topology),
    )
    return Channel(Path(site.orders_path), orders)


def _key_prefix(deployable: Deployable) -> str:
    return f"{deployable.engine.model_path}@"


def _deadline_s(topology: Topology) -> float | None:
    return topology.tier.load_deadline if isinstance(topology.tier, LmcacheTier) else None


def live_parts(
    deployable: Deployable, deployment: Deployment, journal: JournalWriter, run_folder: Path, channel: Channel | None
) -> Live:
    """The parts of a deployment that is up."""
    access = deployable.tier
    engine = EngineApi(deployable.engine_url, deployable.engine.served_name, limit_s=180.0)
    log = Path(deployment.component_status(ENGINE).log)
    if access is None:
        return Live(deployable, engine, log, journal, run_folder, deployment=deployment)
    keys = RedisKeys(access.redis_url, _key_prefix(deployable)) if access.redis_url else None
    tier = LmcacheServer(access.http_port, deployable.engine.model_path, access.chunk_tokens)
    return Live(deployable, engine, log, journal, run_folder, tier, keys, channel, deployment)


def check_settings(live: Live) -> dict[str, object]:
    """What the engine says that it runs with, compared with what was planned.

    Raises: RunError naming each setting that was not taken.
    """
    asked = live.deployable.engine
    effective, wanted = live.engine.settings(), wanted_settings(asked)
    wrong = [
        f"{key} is {effective[key]}, asked was {value}" for key, value in wanted.items() if effective[key] != value
    ]
    if wrong:
        raise RunError(
            f"settings were not taken: {'; '.join(wrong)}", where=f"{asked.served_name} at {live.engine.url}"
        )
    return effective


def remove_folder(deployable: Deployable) -> None:
    """The deployment's own folder, once nothing runs from it."""
    shutil.rmtree(deployable.site.folder, ignore_errors=True)
