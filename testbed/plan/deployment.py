"""A topology as the processes of one deployment: its engines, the tier behind them, the router before them."""

import msgspec

from testbed.plan.component import Component, DeploymentPlan, Ready
from testbed.plan.engines import Crew, engine_component, engine_part, engine_ports
from testbed.plan.ports import assign_ports
from testbed.plan.roster import roster
from testbed.plan.servers import tier_ports, tier_servers
from testbed.plan.site import LOOPBACK, Deployable, EnginePart, Site
from testbed.spec.routing import EngineAt, RouterConfig, Routing, TransferName, router_config
from testbed.spec.topology import Topology

ROUTER = "router"
_ROUTER_READY_S = 60.0


def plan_deployment(site: Site) -> Deployable:
    """The components of a topology, and how to reach them.

    Raises: DeployError where a program is missing, no ports are free, or the engines do not fit the machines; SpecError
    for a Redis URL that can't be used.
    """
    topology = site.topology
    posts = roster(topology, site.gpus)
    names = [*engine_ports(topology, posts), *tier_ports(site), *([ROUTER] if topology.routed else [])]
    ports = assign_ports(names, site.machine.busy_ports)
    tier = tier_servers(site, ports, [post.node for post in posts])
    crew = Crew(site, posts, ports, tier)
    parts = tuple(engine_part(crew, post) for post in posts)
    engines = [engine_component(crew, post, part) for post, part in zip(posts, parts, strict=True)]
    router = [_router(site, parts, ports[ROUTER])] if topology.routed else []
    plan = DeploymentPlan(site.name, (*tier.components, *engines, *router), site.folder)
    url = f"http://{LOOPBACK}:{ports[ROUTER]}" if topology.routed else None
    return Deployable(site, plan, parts, url, tier.access)


def _router(site: Site, parts: tuple[EnginePart, ...], port: int) -> Component:
    """It listens before its engines do: so it costs the start no time, and says of each request what is not there."""
    path = f"{site.folder}/router.json"
    command = (site.machine.python, "-m", "testbed.router.serve", "--config", path)
    ready = Ready(limit_s=_ROUTER_READY_S, url=f"http://{LOOPBACK}:{port}/metrics")
    text = msgspec.json.format(msgspec.json.encode(_routing(site, parts, port))).decode()
    return Component(ROUTER, command, ready, ports=(port,), files={path: text})


def _routing(site: Site, parts: tuple[EnginePart, ...], port: int) -> RouterConfig:
    topology = site.topology
    engines = [
        EngineAt(name=part.name, url=part.url, role=part.role, bootstrap_url=part.peer_url) for part in parts
    ]
    routing = topology.router if topology.router is not None else Routing()
    return router_config(
        routing, engines, model=site.model.name, port=port, transfer=_transfer_name(topology),
        journal=site.events_folder,
    )


def _transfer_name(topology: Topology) -> TransferName | None:
    return None if topology.transfer.kind == "none" else topology.transfer.kind
