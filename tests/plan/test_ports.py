"""Ports are given out once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.errors import DeployError
from testbed.plan.ports import FIRST_PORT, PORTS_PER_DEPLOYMENT, assign_ports


def test_ports_follow_each_other_from_the_first() -> None:
    assert assign_ports(["engine", "tier"], frozenset()) == {"engine": FIRST_PORT, "tier": FIRST_PORT + 1}


def test_a_busy_port_moves_the_whole_deployment() -> None:
    moved = FIRST_PORT + PORTS_PER_DEPLOYMENT
    assert assign_ports(["engine", "tier"], frozenset({FIRST_PORT + 1})) == {"engine": moved, "tier": moved + 1}


@given(st.frozensets(st.integers(FIRST_PORT, FIRST_PORT + 200), max_size=30))
def test_no_port_is_given_twice_or_busy(busy: frozenset[int]) -> None:
    ports = set(assign_ports("abcde", busy).values())
    assert len(ports) == 5
    assert ports.isdisjoint(busy)


def test_where_no_port_is_free_that_is_said() -> None:
    with pytest.raises(DeployError, match="no 1 free ports"):
        assign_ports(["engine"], frozenset(range(1, 65536)))
