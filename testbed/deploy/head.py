"""Our own Ray head: one process that starts it and ends when any part of it dies.

    python -m testbed.deploy.head --temp FOLDER --port PORT --cpus N --ready FILE

Not `ray start`: that gives the node the interface's address even when told 127.0.0.1, opens Ray's client port, and
takes half a minute to end. Not `ray.init`: the same address, and it does not notice that its raylet died. Everything
that is started here dies with this process (Ray sets the parent-death signal); the leash above it takes the rest.
"""

import argparse
import sys
from pathlib import Path

from ray._private.node import Node
from ray._private.parameter import RayParams

from testbed.clock import sleep_s
from testbed.deploy.cluster import LOOPBACK
from testbed.deploy.processes import free_port

OBJECT_STORE_BYTES = 80_000_000
LOOK_EVERY_S = 0.2


def main(arguments: list[str]) -> int:
    """Start the head, say that it is ready, and stay until a part of it is dead."""
    parser = argparse.ArgumentParser(prog="testbed.deploy.head")
    parser.add_argument("--temp", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--cpus", type=int, required=True)
    parser.add_argument("--ready", type=Path, required=True)
    options = parser.parse_args(arguments)
    parameters = RayParams(
        node_ip_address=LOOPBACK, gcs_server_port=options.port, num_cpus=options.cpus, temp_dir=options.temp,
        object_store_memory=OBJECT_STORE_BYTES, include_dashboard=False, include_log_monitor=False, no_monitor=True,
        dashboard_agent_listen_port=free_port(LOOPBACK),
    )
    node = Node(parameters, head=True, shutdown_at_exit=False, spawn_reaper=True)
    options.ready.touch()
    while not node.dead_processes():
        sleep_s(LOOK_EVERY_S)
    sys.stderr.write(f"ended: {', '.join(name for name, _ in node.dead_processes())}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
