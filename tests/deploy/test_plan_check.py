"""What must fail is refused before anything is started."""

import os
import socket

import pytest

from testbed.deploy.plan_check import check_plan, check_ports
from testbed.errors import DeployError
from testbed.plan.component import Component, DeploymentPlan, Ready

READY = Ready(limit_s=1.0)


def plan(*components: Component) -> DeploymentPlan:
    return DeploymentPlan("small", components, "folder")


def component(name: str, *needs: str, ports: tuple[int, ...] = ()) -> Component:
    return Component(name, ("true",), READY, needs=needs, ports=ports)


def test_needs_that_lead_to_an_order_are_fine() -> None:
    check_plan(plan(component("router", "engine"), component("engine", "tier"), component("tier")))


@pytest.mark.parametrize("components", [
    (component("a", "b"), component("b", "a")), (component("a", "nobody"),), (component("a", "a"),),
])
def test_needs_that_can_t_be_met_are_refused(components: tuple[Component, ...]) -> None:
    with pytest.raises(DeployError, match=r"can't be met: a \("):
        check_plan(plan(*components))


def test_two_components_of_one_name_are_refused() -> None:
    with pytest.raises(DeployError, match="2 components are called 'a'"):
        check_plan(plan(component("a"), component("a")))


@pytest.mark.parametrize("name", ["../up", "a b", "", ".hidden"])
def test_a_name_that_is_no_file_name_is_refused(name: str) -> None:
    with pytest.raises(DeployError, match="can't be a name"):
        check_plan(plan(component(name)))


def test_a_busy_port_is_refused_with_its_holder(port: int) -> None:
    check_ports(plan(component("a", ports=(port,))))
    with socket.create_server(("127.0.0.1", port)), pytest.raises(DeployError) as refused:
        check_ports(plan(component("a", ports=(port,))))
    assert f"port {port} of a is busy, held by process {os.getpid()}: " in str(refused.value)
