"""A component made of a small process tree, and its records."""

import json
import os
import secrets
import sys
from dataclasses import dataclass, field
from pathlib import Path

from testbed.clock import wait_for
from testbed.deploy.processes import ProcessId, look, this_process
from testbed.deploy.records import DeploymentRecord, LeashRecord, leash_path, read
from testbed.deploy.supervisor import SupervisorOrder
from testbed.plan.component import Component, DeploymentPlan, Ready

HERE = Path(__file__).parent
NAME = "small"
LIMIT_S = 20.0
GRACE_S = 0.5
"""What heeds no SIGTERM is killed after it; the small trees that do heed it end within a moment."""


@dataclass
class Trees:
    """Makes orders for the component `tree`, and finds its processes."""

    folder: Path
    uid: str = field(default_factory=lambda: secrets.token_hex(4))

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @property
    def temp(self) -> Path:
        return self.folder / "temp"

    def component(self, special: dict[str, object], ready: Ready | None = None) -> Component:
        """A component whose command is tree.py."""
        command = (sys.executable, str(HERE / "tree.py"), str(self.folder), json.dumps(special))
        return Component("tree", command, ready or Ready(limit_s=LIMIT_S))

    def order(self, component: Component, lease_s: float | None = None) -> SupervisorOrder:
        """What a supervisor of it is told."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("TESTBED")}
        mark = f"{NAME}/{self.uid}"
        return SupervisorOrder(NAME, mark, component, self.folder, self.temp, self.state, lease_s, inherited, GRACE_S)

    def record(self, component: Component) -> DeploymentRecord:
        """The deployment as it would be written down."""
        plan = DeploymentPlan(NAME, (component,), str(self.folder))
        return DeploymentRecord(plan, self.uid, "", True, this_process(), kept=True, temp=str(self.temp))

    def leash(self) -> LeashRecord:
        """What the leash has written down."""
        record = read(leash_path(self.state, NAME, "tree"), LeashRecord)
        assert record is not None
        return record

    def ended(self) -> bool:
        """Whether the leash says that its job is done."""
        record = read(leash_path(self.state, NAME, "tree"), LeashRecord)
        return record is not None and record.state == "ended"

    def members(self) -> list[ProcessId]:
        """Top, middle and bottom, once all are ready."""
        wait_for(lambda: (self.folder / "top").exists(), limit_s=LIMIT_S, what="the tree")
        return [self.member(role) for role in ("top", "middle", "bottom")]

    def member(self, role: str) -> ProcessId:
        """One process of the tree."""
        found = look(int((self.folder / role).read_text()))
        assert found is not None, f"{role} is gone"
        return found.id

    def forget(self) -> None:
        """Let the next tree tell its pids anew."""
        for role in ("top", "middle", "bottom"):
            (self.folder / role).unlink()
