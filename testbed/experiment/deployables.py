"""From the blocks of a plan to deployments: their plans, their folders, and the parts that can be asked."""

import shutil
from dataclasses import replace
from pathlib import Path

import msgspec

from testbed.deploy.deployment import Deployment
from testbed.engines.api import EngineApi, wanted_settings
from testbed.errors import RunError
from testbed.experiment.channel import Channel
from testbed.experiment.live import Live, TierServer
from testbed.experiment.routed import RouterApi
from testbed.journal.writer import JournalWriter
from testbed.plan.deployment import plan_deployment
from testbed.plan.experiment import ExperimentPlan
from testbed.plan.facts import Facts
from testbed.plan.site import Deployable, EnginePart, FilesAccess, LmcacheAccess, Site, StoreAccess
from testbed.probe.orders import Orders
from testbed.spec.topology import NoTier, NoTransfer
from testbed.tiers.files import FileTier
from testbed.tiers.lmcache import LmcacheServer
from testbed.tiers.mooncake_store import MooncakeStore
from testbed.tiers.redis import RedisKeys

KEYS_FILE = "keys.json"
_GOLDEN_REQUESTS_AT_ONCE = 6
_ANSWER_LIMIT_S = 180.0


def block_deployable(plan: ExperimentPlan, number: int, name: str, folder: Path, facts: Facts) -> Deployable:
    """The deployment of one block of arms."""
    topology = plan.blocks[number][0].topology
    return plan_deployment(
        Site(name, str(folder), topology, facts.model, facts.machine, plan.kv, plan.max_model_len)
    )


def golden_deployable(plan: ExperimentPlan, name: str, folder: Path, facts: Facts) -> Deployable:
    """One such engine without tier, transfer and prefix cache, with room for several of the longest requests."""
    topology = plan.blocks[0][0].topology
    alone = topology.engines[0].model_copy(update={"role": "both", "replicas": 1})
    plain = topology.model_copy(update={
        "engines": (alone,), "tier": NoTier(kind="none"), "transfer": NoTransfer(kind="none"), "router": None,
    })
    blocks = _GOLDEN_REQUESTS_AT_ONCE * (plan.max_model_len // plan.kv.block_size)
    kv = replace(plan.kv, num_blocks=blocks)
    return plan_deployment(
        Site(name, str(folder), plain, facts.model, facts.machine, kv, plan.max_model_len, prefix_caching=False)
    )


class KeysAt(msgspec.Struct, frozen=True):
    """Where a deployment keeps keys in a Redis: written down, so that they can be removed by whoever takes it down."""

    url: str
    prefix: str


def prepare_folder(deployable: Deployable, journal: Path) -> Channel | None:
    """Make what is expected to be there: the model under its own name, files of components, and the probe's orders."""
    site = deployable.site
    link = Path(site.model_path)
    link.parent.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(site.model.folder)
    for component in deployable.plan.components:
        for path, text in component.files.items():
            Path(path).write_text(text)
    if not deployable.probed:
        return None
    if isinstance(deployable.tier, LmcacheAccess) and deployable.tier.redis_url is not None:
        at = KeysAt(deployable.tier.redis_url, _key_prefix(deployable))
        Path(site.folder, KEYS_FILE).write_bytes(msgspec.json.encode(at))
    failure = site.topology.on_load_failure
    orders = Orders(
        journal=str(journal),
        arm="",
        repetition=0,
        attempts=failure.attempts,
        load_deadline_s=site.topology.load_deadline_s,
    )
    return Channel(Path(site.orders_path), orders)


def _key_prefix(deployable: Deployable) -> str:
    return f"{deployable.site.model_path}@"


def live_parts(
    deployable: Deployable, deployment: Deployment, journal: JournalWriter, run_folder: Path, channel: Channel | None
) -> Live:
    """The parts of a deployment that is up."""
    access, name = deployable.tier, deployable.served_name
    first, *others = [EngineApi(part.url, name, limit_s=_ANSWER_LIMIT_S) for part in deployable.engines]
    log = Path(deployment.component_status(_loading(deployable).name).log)
    keys: RedisKeys | None = None
    tier: TierServer | None = None
    if isinstance(access, LmcacheAccess):
        keys = RedisKeys(access.redis_url, _key_prefix(deployable)) if access.redis_url else None
        tier = LmcacheServer(access.http_port, deployable.site.model_path, access.chunk_tokens)
    elif isinstance(access, StoreAccess):
        tier = MooncakeStore(access.ports, deployable.site.model_path, access.chunk_tokens)
    elif isinstance(access, FilesAccess):
        tier = FileTier(Path(access.folder), access.chunk_tokens)
    url = deployable.router_url
    router = None if url is None else RouterApi(url, name, limit_s=_ANSWER_LIMIT_S)
    return Live(
        deployable, first, log, journal, run_folder, tier, keys, channel, deployment, tuple(others), router
    )


def _loading(deployable: Deployable) -> EnginePart:
    """The first engine that loads KV: decode, where prefill is another."""
    decode = deployable.having("decode")
    return decode[0] if decode else deployable.engines[0]


def check_settings(live: Live) -> dict[str, object]:
    """What each engine says that it runs with, compared with what was planned.

    A single engine's settings stand by themselves, those of several under their names.
    Raises: RunError naming each setting that was not taken.
    """
    parts = live.deployable.engines
    found = {part.name: _checked(part, engine) for part, engine in zip(parts, live.engines, strict=True)}
    return found[parts[0].name] if len(parts) == 1 else dict(found)


def _checked(part: EnginePart, engine: EngineApi) -> dict[str, object]:
    effective, wanted = engine.settings(), wanted_settings(part.settings)
    wrong = [
        f"{key} is {effective[key]}, asked was {value}" for key, value in wanted.items() if effective[key] != value
    ]
    if wrong:
        raise RunError(f"settings were not taken: {'; '.join(wrong)}", where=f"{part.name} at {engine.url}")
    return effective


def remove_folder(deployable: Deployable) -> None:
    """The deployment's own folder, once nothing runs from it."""
    shutil.rmtree(deployable.site.folder, ignore_errors=True)
