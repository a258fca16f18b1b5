"""Where in the Ray cluster the supervisors go: a placement group for what reserves resources, all on this node."""

import os
import threading
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

from testbed.clock import polls
from testbed.deploy.cluster import NAMESPACE
from testbed.deploy.records import DeploymentRecord
from testbed.deploy.supervisor import SOURCES, Supervisor, SupervisorOrder
from testbed.errors import DeployError
from testbed.plan.component import Component, DeploymentPlan

PLACE_LIMIT_S = 5.0
LEAVE_LIMIT_S = 5.0
NAME_LIMIT_S = 15.0
CALLS_AT_ONCE = 8
# A sliver of the resource that Ray gives each node under its address pins a bundle to that node.
PIN = 0.001


@dataclass(frozen=True)
class Placement:
    """A placement group's name, or None where the plan reserves nothing."""

    name: str | None


def reserve(ray: ModuleType, record: DeploymentRecord) -> Placement:
    """Reserve what the plan asks, all at once, on this node.

    Raises: DeployError within seconds, naming what is asked and what there is.
    """
    bundles = [_bundle(component) for component in _reserving(record.plan)]
    if not bundles:
        return Placement(None)
    here = f"node:{ray.util.get_node_ip_address()}"
    group = ray.util.placement_group(
        [{**bundle, here: PIN} for bundle in bundles], strategy="STRICT_PACK", name=record.mark, lifetime="detached"
    )
    if group.wait(timeout_seconds=PLACE_LIMIT_S):
        return Placement(record.mark)
    ray.util.remove_placement_group(group)
    raise DeployError(
        f"the plan asks {_asked(record.plan)}; {_available(ray)} available at {record.address}",
        where=record.plan.name, hint="take down other deployments (`testbed status`), or ask for less",
    )


def _reserving(plan: DeploymentPlan) -> list[Component]:
    return [component for component in plan.components if component.cpus or component.gpus]


def _bundle(component: Component) -> dict[str, float]:
    wanted = {"CPU": component.cpus, "GPU": component.gpus}
    return {name: amount for name, amount in wanted.items() if amount}


def _asked(plan: DeploymentPlan) -> str:
    cpus = sum(component.cpus for component in plan.components)
    gpus = sum(component.gpus for component in plan.components)
    return f"{cpus:g} CPU and {gpus:g} GPU"


def _available(ray: ModuleType) -> str:
    found = ray.available_resources()
    shown = [f"{found[name]:g} {name}" if name in found else f"no {name}" for name in ("CPU", "GPU")]
    return " and ".join(shown)


def supervise(ray: ModuleType, placement: Placement, record: DeploymentRecord, order: SupervisorOrder) -> None:
    """Create the detached actor of one component; it lives on without us."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy

    reserving = [component.name for component in _reserving(record.plan)]
    strategy: Any = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    if order.component.name in reserving:
        group = ray.util.get_placement_group(placement.name)
        strategy = PlacementGroupSchedulingStrategy(group, reserving.index(order.component.name))
    actor = ray.remote(Supervisor).options(
        name=f"{record.plan.name}/{order.component.name}", namespace=NAMESPACE, lifetime="detached",
        max_concurrency=CALLS_AT_ONCE, max_restarts=0, scheduling_strategy=strategy,
        num_cpus=order.component.cpus, num_gpus=order.component.gpus,
        runtime_env=None if record.own_head else {"env_vars": {"PYTHONPATH": SOURCES}},
    )
    for _ in polls(NAME_LIMIT_S, 0.1):
        try:
            actor.remote(order, partial(_leave, placement.name))
            return
        except ValueError as problem:
            # Ray may not have seen yet that the actor of that name, of a deployment before, is dead.
            taken = problem
    raise DeployError(f"its actor can't be made: {taken}", where=order.component.name)


def _leave(group: str | None) -> None:
    """The end of a supervisor whose lease ran out: give back what is reserved, and exit."""
    threading.Timer(LEAVE_LIMIT_S, os._exit, (0,)).start()
    if group is not None:
        import ray

        release(ray, group)
    os._exit(0)


def release(ray: ModuleType, group: str) -> None:
    """Give back a placement group, if it is still there; Ray ends the actors in it."""
    states = ray.util.placement_group_table().values()
    if any(found["name"] == group and found["state"] != "REMOVED" for found in states):
        ray.util.remove_placement_group(ray.util.get_placement_group(group))
