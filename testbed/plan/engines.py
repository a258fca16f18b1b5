"""Each engine of a deployment as a component: its command, environment, ports, and how it hands KV on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from testbed.engines.command import (
    EngineSettings,
    engine_command,
    engine_env,
    flags_of,
    gpu_engine_env,
    ready_body,
    shared_cores_env,
)
from testbed.errors import DeployError
from testbed.plan.component import Component, Ready
from testbed.plan.gpus import gpu_share
from testbed.plan.roster import Post
from testbed.plan.servers import Ports, TierServers
from testbed.plan.site import LOOPBACK, EnginePart, Site
from testbed.spec.topology import Topology
from testbed.transfers import mooncake_p2p, nixl
from testbed.transfers.combined import combined_config

_READY_S = 240.0
_GPU_READY_S = 900.0
_CORES_PER_START = 2
"""On so many cores one engine becomes ready in its time; more engines on fewer cores take turns."""


@dataclass(frozen=True)
class Crew:
    """All engines of one site, and what they share."""

    site: Site
    posts: tuple[Post, ...]
    ports: Ports
    tier: TierServers

    @property
    def alone(self) -> bool:
        """True where all is on this machine, and nothing has to be reached from another."""
        return {post.node for post in self.posts} == {LOOPBACK}


def engine_ports(topology: Topology, posts: tuple[Post, ...]) -> tuple[str, ...]:
    """The names of the ports that engines need: the engine's own for HTTP, and `NAME.WHAT` for the rest."""
    extra = _extra_ports(topology)
    return (*(post.name for post in posts), *(f"{post.name}.{port}" for post in posts for port in extra))


def _extra_ports(topology: Topology) -> tuple[str, ...]:
    kind = topology.transfer.kind
    return mooncake_p2p.PORTS if kind == "mooncake_p2p" else nixl.PORTS if kind == "nixl" else ()


def engine_part(crew: Crew, post: Post) -> EnginePart:
    """How to reach one engine, and what it runs with."""
    site, port = crew.site, crew.ports[post.name]
    transfer = _transfer_config(crew, post)
    settings = EngineSettings(
        python=site.machine.python,
        model_path=site.model_path,
        served_name=site.model.name,
        dtype=site.model.dtype,
        port=port,
        max_model_len=site.max_model_len,
        block_size=site.kv.block_size,
        num_blocks=site.kv.num_blocks if site.gpus is None else None,
        budget=None if post.group.chunked_prefill == "off" else post.group.chunked_prefill.budget,
        prefix_caching=site.prefix_caching,
        transfer=transfer,
        args=flags_of(post.group.args),
        host=post.node,
        tensor_parallel=post.group.tensor_parallel,
        gpu_share=None if site.gpus is None else gpu_share(site.gpus, len(crew.posts)),
    )
    orders = None if transfer is None else site.orders_path
    return EnginePart(post.name, post.role, settings, f"http://{post.node}:{port}", orders, _peer_url(crew, post))


def engine_component(crew: Crew, post: Post, part: EnginePart) -> Component:
    """The same as a process to start."""
    site = crew.site
    ready = Ready(limit_s=_ready_s(crew), url=f"{part.url}/v1/completions", body=ready_body(part.settings))
    own = [crew.ports[name] for name in crew.ports if name == post.name or name.startswith(f"{post.name}.")]
    return Component(
        post.name, engine_command(part.settings), ready, env=_env(crew, post), needs=_needs(crew, post),
        ports=tuple(own), gpus=_gpus(site, post, len(crew.posts)), node=post.node,
    )


def _ready_s(crew: Crew) -> float:
    """Engines that start together share the cores, and take as much longer; on GPUs the weights take their time."""
    if crew.site.gpus is not None:
        return _GPU_READY_S
    at_once = max(1, crew.site.machine.cores // _CORES_PER_START)
    return _READY_S * -(-len(crew.posts) // at_once)


def _gpus(site: Site, post: Post, engines: int) -> float:
    if site.gpus is None:
        return 0.0
    return gpu_share(site.gpus, engines) if site.gpus.shared else float(post.group.gpus)


def _needs(crew: Crew, post: Post) -> tuple[str, ...]:
    """The tier's servers; on one GPU also the engine before, for each measures the memory that is free."""
    gpus = crew.site.gpus
    before = crew.posts[crew.posts.index(post) - 1].name if gpus and gpus.shared and post != crew.posts[0] else None
    return crew.tier.needs if before is None else (*crew.tier.needs, before)


def _transfer_config(crew: Crew, post: Post) -> Mapping[str, Any] | None:
    """The connector of one engine: the transfer's own, else the tier's; None for an engine without any."""
    kind, site = crew.site.topology.transfer.kind, crew.site
    failure = site.topology.on_load_failure
    if post.role != "both" and kind == "mooncake_p2p":
        protocol = mooncake_protocol(site)
        return mooncake_p2p.connector_config(post.role, failure, site.orders_path, protocol=protocol)
    if post.role != "both" and kind == "nixl":
        pulled = nixl.connector_config(post.role, failure, site.orders_path, device=_nixl_device(site))
        if crew.tier.transfer is None:
            return pulled
        return combined_config(pulled, crew.tier.transfer(crew.ports[post.name]), failure, site.orders_path)
    return None if crew.tier.transfer is None else crew.tier.transfer(crew.ports[post.name])


def _nixl_device(site: Site) -> Literal["cpu", "cuda"]:
    return "cpu" if site.gpus is None else "cuda"


def mooncake_protocol(site: Site) -> Literal["tcp", "rdma"]:
    """RDMA where the machines have it, else TCP."""
    return "rdma" if site.gpus is not None and site.gpus.rdma else "tcp"


def _env(crew: Crew, post: Post) -> dict[str, str]:
    """What the engine's environment needs; the user's own variables win."""
    site, kind = crew.site, crew.site.topology.transfer.kind
    extra = {port: crew.ports[f"{post.name}.{port}"] for port in _extra_ports(site.topology)}
    env = dict(crew.tier.env)
    if kind == "mooncake_p2p":
        role = None if post.role == "both" else post.role
        env |= mooncake_p2p.engine_env(extra, role, give_up_s=site.topology.load_deadline_s)
    if kind == "nixl":
        env |= nixl.engine_env(extra, device=_nixl_device(site))
    if site.gpus is None:
        cores = shared_cores_env(len(crew.posts), site.machine.cores)
        return engine_env(site.kv.kv_bytes, {**cores, **env, **post.group.env})
    full = gpu_engine_env({**env, **post.group.env})
    # What listens on loopback by itself must be reached from the other machines.
    return full if crew.alone else {key: post.node if value == LOOPBACK else value for key, value in full.items()}


def _peer_url(crew: Crew, post: Post) -> str | None:
    name = f"{post.name}.{mooncake_p2p.PEER_PORT}"
    if post.role != "prefill" or crew.site.topology.transfer.kind != "mooncake_p2p":
        return None
    if name not in crew.ports:
        raise DeployError("has no port by which it says who it is", where=post.name)
    return f"http://{post.node}:{crew.ports[name]}"
