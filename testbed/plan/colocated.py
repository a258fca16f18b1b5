"""A colocated deployment as components: the engine, and the tier's processes behind it."""

from dataclasses import dataclass, replace

from testbed.engines.command import EngineSettings, engine_command, engine_env, flags_of, ready_body
from testbed.errors import DeployError
from testbed.plan.component import Component, DeploymentPlan, Ready
from testbed.plan.facts import Facts
from testbed.plan.memory import EngineKvPlan
from testbed.plan.ports import assign_ports
from testbed.spec.topology import LmcacheTier, Topology
from testbed.tiers import lmcache, redis

ENGINE = "engine-0"
_ENGINE_READY_S = 240.0
_SERVER_READY_S = 90.0
_REDIS_READY_S = 20.0


@dataclass(frozen=True)
class Site:
    """What a deployment is planned from. `folder` is its own; `max_model_len` fits the longest request."""

    name: str
    folder: str
    topology: Topology
    facts: Facts
    kv: EngineKvPlan
    max_model_len: int
    prefix_caching: bool = True

    @property
    def orders_path(self) -> str:
        """The file by which the probe inside the engine is told what to do."""
        return f"{self.folder}/orders.json"

    @property
    def model_path(self) -> str:
        """The path that the engine is given as its model: one of this deployment's own, so that its keys are too."""
        return f"{self.folder}/models/{self.facts.model.name}"


@dataclass(frozen=True)
class TierAccess:
    """How to reach a deployment's tier: LMCache's HTTP port, the Redis behind it, and its unit of storage."""

    http_port: int
    chunk_tokens: int
    redis_url: str | None


@dataclass(frozen=True)
class Deployable:
    """A deployment, and how to reach it once it is up. `tier` is None for an engine without a connector."""

    site: Site
    plan: DeploymentPlan
    engine: EngineSettings
    engine_url: str
    tier: TierAccess | None = None


def plan_colocated(site: Site) -> Deployable:
    """The components of one colocated engine with its tier.

    Raises: DeployError where a program is missing or no ports are free; SpecError for a Redis URL that can't be used.
    """
    tier = site.topology.tier
    if isinstance(tier, LmcacheTier):
        return _with_lmcache(site, tier)
    settings = _engine_settings(site, assign_ports([ENGINE], site.facts.machine.busy_ports)[ENGINE])
    component = _engine_component(site, settings, ())
    return Deployable(site, DeploymentPlan(site.name, (component,), site.folder), settings, _url(settings))


def _url(settings: EngineSettings) -> str:
    return f"http://127.0.0.1:{settings.port}"


def _engine_settings(site: Site, port: int) -> EngineSettings:
    engine = site.topology.engines[0]
    return EngineSettings(
        python=site.facts.machine.python,
        model_path=site.model_path,
        served_name=site.facts.model.name,
        dtype=site.facts.model.dtype,
        port=port,
        max_model_len=site.max_model_len,
        block_size=site.kv.block_size,
        num_blocks=site.kv.num_blocks,
        budget=None if engine.chunked_prefill == "off" else engine.chunked_prefill.budget,
        prefix_caching=site.prefix_caching,
        args=flags_of(engine.args),
    )


def _engine_component(site: Site, settings: EngineSettings, needs: tuple[str, ...]) -> Component:
    ready = Ready(limit_s=_ENGINE_READY_S, url=f"{_url(settings)}/v1/completions", body=ready_body(settings))
    env = engine_env(site.kv.kv_bytes, site.topology.engines[0].env)
    return Component(ENGINE, engine_command(settings), ready, env=env, needs=needs, ports=(settings.port,))


def _with_lmcache(site: Site, tier: LmcacheTier) -> Deployable:
    own_redis = tier.backing is not None and tier.backing.url is None
    names = [ENGINE, "messages", "http", "prometheus", *([redis.NAME] if own_redis else [])]
    ports = assign_ports(names, site.facts.machine.busy_ports)
    redis_url = _redis_url(tier, ports)
    redis_at = redis.address(redis_url) if redis_url else None
    server_ports = lmcache.LmcachePorts(ports["messages"], ports["http"], ports["prometheus"])
    chunk_tokens = tier.chunk_blocks * site.kv.block_size
    command = lmcache.server_command(
        site.facts.machine.lmcache, tier.memory, server_ports, pool=site.name, chunk_tokens=chunk_tokens, redis=redis_at
    )
    server = Component(
        lmcache.NAME,
        command,
        Ready(limit_s=_SERVER_READY_S, url=lmcache.health_url(server_ports)),
        env=dict(lmcache.SERVER_ENV),
        needs=(redis.NAME,) if own_redis else (),
        ports=(server_ports.messages, server_ports.http, server_ports.prometheus),
        shared_memory=(lmcache.shared_memory_name(site.name),),
    )
    transfer = lmcache.transfer_config(server_ports, site.topology.on_load_failure, site.orders_path)
    settings = replace(_engine_settings(site, ports[ENGINE]), transfer=transfer)
    components = (
        *([_redis_component(site, tier, ports[redis.NAME])] if own_redis else []),
        server,
        _engine_component(site, settings, (lmcache.NAME,)),
    )
    access = TierAccess(server_ports.http, chunk_tokens, redis_url)
    return Deployable(site, DeploymentPlan(site.name, components, site.folder), settings, _url(settings), access)


def _redis_url(tier: LmcacheTier, ports: dict[str, int]) -> str | None:
    if tier.backing is None:
        return None
    return tier.backing.url if tier.backing.url is not None else f"redis://127.0.0.1:{ports[redis.NAME]}/0"


def _redis_component(site: Site, tier: LmcacheTier, port: int) -> Component:
    program = site.facts.machine.redis
    if program is None or tier.backing is None or tier.backing.memory is None:
        raise DeployError(
            "there is no redis-server program",
            where="tier.backing",
            hint="run `make setup`, which installs one, or give tier.backing.url",
        )
    command = redis.server_command(program, port, tier.backing.memory, site.folder)
    return Component(redis.NAME, command, Ready(limit_s=_REDIS_READY_S, port=port), ports=(port,))
