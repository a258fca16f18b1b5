"""The processes of a tier as components, and what the engines are told of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from testbed.errors import DeployError
from testbed.plan.component import Component, Ready
from testbed.plan.site import FilesAccess, LmcacheAccess, Site, StoreAccess, TierAccess
from testbed.spec.topology import FilesTier, LmcacheTier, MooncakeStoreTier, NoTier
from testbed.tiers import files, lmcache, mooncake_store, redis

_SERVER_READY_S = 90.0
_REDIS_READY_S = 20.0
_LMCACHE_PORTS = ("messages", "http", "prometheus")

Ports = Mapping[str, int]


@dataclass(frozen=True)
class TierServers:
    """A tier's components, how to reach it, and what each engine needs: its environment, and servers that are ready.

    `transfer` gives an engine's transfer config by the engine's port.
    """

    components: tuple[Component, ...] = ()
    access: TierAccess | None = None
    transfer: Callable[[int], Mapping[str, Any]] | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()


def tier_ports(site: Site) -> tuple[str, ...]:
    """The names of the ports that the tier's processes need."""
    tier = site.topology.tier
    if isinstance(tier, MooncakeStoreTier):
        return mooncake_store.MASTER_PORTS
    if not isinstance(tier, LmcacheTier):
        return ()
    return (*_LMCACHE_PORTS, redis.NAME) if _own_redis(tier) else _LMCACHE_PORTS


def tier_servers(site: Site, ports: Ports, nodes: Sequence[str]) -> TierServers:
    """The tier of a topology; `nodes` are the machines that its engines are on.

    Raises: DeployError where a program is missing, or engines are on machines that this tier does not reach; SpecError
    for a Redis URL that can't be used.
    """
    tier = site.topology.tier
    if isinstance(tier, NoTier):
        return TierServers()
    if len(set(nodes)) > 1:
        raise DeployError(
            f"tier {tier.kind} shares memory with engines on its own machine; this plan has {len(set(nodes))} machines",
            where="tier.kind", hint="use a transfer, or engines that fit one machine",
        )
    if isinstance(tier, FilesTier):
        return _files(site)
    return _lmcache(site, tier, ports) if isinstance(tier, LmcacheTier) else _mooncake(site, tier, ports)


def _files(site: Site) -> TierServers:
    folder, failure = f"{site.folder}/kv", site.topology.on_load_failure
    return TierServers(
        access=FilesAccess(folder, site.kv.block_size),
        transfer=lambda port: files.transfer_config(folder, failure, site.orders_path),
    )


def _mooncake(site: Site, tier: MooncakeStoreTier, ports: Ports) -> TierServers:
    program, path = site.machine.mooncake_master, f"{site.folder}/mooncake.json"
    if program is None:
        raise DeployError("there is no mooncake_master program", where="tier.kind", hint="run `make setup`")
    own = {name: ports[name] for name in mooncake_store.MASTER_PORTS}
    protocol: mooncake_store.Protocol = "rdma" if site.gpus is not None and site.gpus.rdma else "tcp"
    master = Component(
        mooncake_store.NAME,
        mooncake_store.master_command(program, own),
        Ready(limit_s=_SERVER_READY_S, url=mooncake_store.master_ready_url(own)),
        ports=tuple(own.values()),
        files={path: mooncake_store.client_config(own, tier.memory, protocol)},
    )
    failure = site.topology.on_load_failure
    return TierServers(
        (master,),
        StoreAccess(own, site.kv.block_size),
        lambda port: mooncake_store.transfer_config(failure, site.orders_path, lookup=port),
        mooncake_store.engine_env(path),
        needs=(mooncake_store.NAME,),
    )


def _own_redis(tier: LmcacheTier) -> bool:
    return tier.backing is not None and tier.backing.url is None


def _lmcache(site: Site, tier: LmcacheTier, ports: Ports) -> TierServers:
    redis_url = _redis_url(tier, ports)
    server_ports = lmcache.LmcachePorts(ports["messages"], ports["http"], ports["prometheus"])
    chunk_tokens = tier.chunk_blocks * site.kv.block_size
    command = lmcache.server_command(
        site.machine.lmcache, tier.memory, server_ports, pool=site.name, chunk_tokens=chunk_tokens,
        redis=redis.address(redis_url) if redis_url else None,
        mode="engine_driven" if site.gpus is None else "lmcache_driven",
    )
    server = Component(
        lmcache.NAME,
        command,
        Ready(limit_s=_SERVER_READY_S, url=lmcache.health_url(server_ports)),
        env=dict(lmcache.SERVER_ENV),
        needs=(redis.NAME,) if _own_redis(tier) else (),
        ports=(server_ports.messages, server_ports.http, server_ports.prometheus),
        shared_memory=(lmcache.shared_memory_name(site.name),),
    )
    return TierServers(
        (*([_redis(site, tier, ports[redis.NAME])] if _own_redis(tier) else []), server),
        LmcacheAccess(server_ports.http, chunk_tokens, redis_url),
        lambda port: lmcache.transfer_config(server_ports, site.topology.on_load_failure, site.orders_path),
        needs=(lmcache.NAME,),
    )


def _redis_url(tier: LmcacheTier, ports: Ports) -> str | None:
    if tier.backing is None:
        return None
    return tier.backing.url if tier.backing.url is not None else f"redis://127.0.0.1:{ports[redis.NAME]}/0"


def _redis(site: Site, tier: LmcacheTier, port: int) -> Component:
    program = site.machine.redis
    if program is None or tier.backing is None or tier.backing.memory is None:
        raise DeployError(
            "there is no redis-server program",
            where="tier.backing",
            hint="run `make setup`, which installs one, or give tier.backing.url",
        )
    command = redis.server_command(program, port, tier.backing.memory, site.folder)
    return Component(redis.NAME, command, Ready(limit_s=_REDIS_READY_S, port=port), ports=(port,))
