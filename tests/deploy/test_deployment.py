"""Deployments on a Ray head of their own: they come up, tell the truth, and leave nothing, whatever is killed."""

import os
import pickle
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from testbed.clock import now_s, wait_for
from testbed.deploy.ascent import up
from testbed.deploy.cluster import LOOPBACK, disconnect
from testbed.deploy.deployment import Deployment, find_deployment
from testbed.deploy.leftovers import leftovers
from testbed.deploy.processes import ProcessId, alive, command_line, descendants, free_port, look, marked, table
from testbed.deploy.ready import answers
from testbed.deploy.records import (
    DeploymentRecord,
    KeeperRecord,
    SupervisorRecord,
    keeper_path,
    read,
    read_deployment,
    supervisor_path,
)
from testbed.deploy.state import status
from testbed.deploy.supervisor import SOURCES
from testbed.deploy.takedown import down, down_all
from testbed.errors import DeployError
from testbed.plan.component import Component, DeploymentPlan, Ready

pytestmark = pytest.mark.ray
HERE = Path(__file__).parent
LIMIT_S = 30.0
LEASE_S = 4.0


@dataclass
class Site:
    """A state folder with a Ray head, and a folder for one test's deployments. `said` is what we were told."""

    state: Path
    folder: Path
    said: list[str]

    def web(self, name: str, *needs: str) -> Component:
        """A small web server."""
        port = free_port("127.0.0.1")
        command = (sys.executable, "-m", "http.server", "--bind", "127.0.0.1", str(port))
        ready = Ready(limit_s=LIMIT_S, url=f"http://127.0.0.1:{port}/")
        return Component(name, command, ready, needs=needs, ports=(port,))

    def plan(self, *components: Component, name: str = "small") -> DeploymentPlan:
        """A plan below this test's folder."""
        return DeploymentPlan(name, components, str(self.folder))

    def up(self, plan: DeploymentPlan, **options: str) -> Deployment:
        """Bring it up, and keep it."""
        deployment = up(plan, state=self.state, talk=self.said.append, lease_s=15.0, **options)
        deployment.keep()
        return deployment

    def keeper(self) -> KeeperRecord:
        """Who keeps the Ray head."""
        record = read(keeper_path(self.state), KeeperRecord)
        assert record is not None
        return record

    def record(self, name: str = "small") -> DeploymentRecord:
        """What is written down about a deployment."""
        record = read_deployment(self.state, name)
        assert record is not None
        return record

    def supervisor(self, component: str) -> ProcessId:
        """The process of a supervisor."""
        record = read(supervisor_path(self.state, "small", component), SupervisorRecord)
        assert record is not None
        return record.process

    def part_of_head(self, program: str) -> ProcessId:
        """A process of the Ray head."""
        processes = descendants(self.keeper().process.pid, table())
        [found] = [one.id for one in processes if f"/{program} " in f"{command_line(one.id.pid)} "]
        return found


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One state folder, so that the tests share a Ray head; nothing of it is left at the end."""
    folder = tmp_path_factory.mktemp("state")
    yield folder
    record = read(keeper_path(folder), KeeperRecord)
    down_all(folder, lambda text: None)
    assert record is None or not alive(record.process)
    assert record is None or not Path(record.temp).exists()


@pytest.fixture
def site(state: Path, tmp_path: Path) -> Iterator[Site]:
    """A site whose deployments are gone after the test."""
    made = Site(state, tmp_path, [])
    yield made
    for found in status(state):
        down(found.name, state, made.said.append)


Drive = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def drive(site: Site) -> Iterator[Drive]:
    """Starts a driver in a process of its own."""
    started: list[subprocess.Popen[str]] = []

    def start(plan: DeploymentPlan, then: str) -> "subprocess.Popen[str]":
        file = site.folder / "plan"
        file.write_bytes(pickle.dumps(plan))
        command = [sys.executable, str(HERE / "driver.py"), str(site.state), str(file), str(LEASE_S), then]
        environment = {**os.environ, "PYTHONPATH": SOURCES}
        started.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def hears(driver: "subprocess.Popen[str]", word: str) -> list[str]:
    """Read what a driver says until it says `word`."""
    heard: list[str] = []
    assert driver.stdout is not None
    for line in driver.stdout:
        heard.append(line.strip())
        if heard[-1] == word:
            return heard
    raise AssertionError(f"never said {word!r}, but {heard}")


def test_a_deployment_comes_up_in_order_and_leaves_nothing(site: Site) -> None:
    plan = site.plan(site.web("engine", "tier"), site.web("tier"))
    deployment = site.up(plan)
    talk = [text.split(" after")[0] for text in site.said if text.startswith(("engine", "tier"))]
    assert talk == ["tier: starting", "tier: ready", "engine: starting", "engine: ready"]
    [found] = status(site.state)
    assert (found.name, found.state, found.kept, found.ray, found.remaining) == ("small", "up", True, "answers", ())
    assert found.address.startswith(LOOPBACK)
    members = marked("TESTBED_DEPLOYMENT", deployment.record.mark)
    # a leash and a server for each of the two components
    assert len(members) == 4
    deployment.down(site.said.append)
    assert not any(alive(member) for member in members)
    assert leftovers(deployment.record, site.state) == []
    assert status(site.state) == []
    deployment.down(site.said.append)
    assert site.said[-1] == "small: there is no such deployment"


def test_a_component_can_be_frozen_killed_and_restarted(site: Site) -> None:
    deployment = site.up(site.plan(site.web("tier")))
    before = deployment.component_status("tier").pid
    assert before is not None
    assert deployment.signal("tier", signal.SIGSTOP) == 1
    wait_for(lambda: ") T " in Path(f"/proc/{before}/stat").read_text(), limit_s=LIMIT_S, what="the stop")
    deployment.signal("tier", signal.SIGCONT)
    deployment.signal("tier", signal.SIGKILL)
    wait_for(lambda: deployment.component_status("tier").state == "exited", limit_s=LIMIT_S, what="the exit")
    assert deployment.component_status("tier").exit_status == -signal.SIGKILL
    assert status(site.state)[0].state == "degraded"
    find_deployment("small", site.state).restart("tier")
    assert deployment.component_status("tier").state == "ready"
    assert deployment.component_status("tier").pid not in (None, before)
    assert any("Serving HTTP" in line for line in deployment.tail("tier"))


def test_the_same_plan_again_changes_nothing_and_another_is_refused(site: Site) -> None:
    plan = site.plan(site.web("tier"))
    before = site.up(plan).component_status("tier").pid
    assert site.up(plan).component_status("tier").pid == before
    assert "small is up already" in site.said
    with pytest.raises(DeployError, match="is up with another plan"):
        site.up(site.plan(site.web("tier")))
    assert site.up(plan).component_status("tier").pid == before


def test_a_component_that_dies_takes_the_others_down_and_is_named_with_its_log(site: Site) -> None:
    lines = "".join(f"echo line {number};" for number in range(1, 31))
    broken = Component("engine", ("sh", "-c", f"{lines} exit 3"), Ready(limit_s=LIMIT_S, port=1), needs=("tier",))
    plan = site.plan(site.web("tier"), broken)
    with pytest.raises(DeployError) as refused:
        site.up(plan)
    text = str(refused.value)
    assert text.startswith("engine: ended with status 3")
    # the last 15 of 30 lines
    assert text.splitlines()[1:] == [f"line {number}" for number in range(16, 31)]
    assert status(site.state) == []
    # The command of each leash names the folder of the plan.
    assert not [pid for pid in table() if plan.folder in command_line(pid)]


def test_a_component_that_never_gets_ready_is_named(site: Site) -> None:
    sleeper = Component("engine", ("sleep", "1000"), Ready(limit_s=1.0, port=free_port("127.0.0.1")))
    with pytest.raises(DeployError, match="engine: was not ready after 1 s; its log is empty"):
        site.up(site.plan(sleeper))
    assert status(site.state) == []


def test_a_busy_port_is_named_with_its_holder_before_anything_starts(site: Site) -> None:
    component = site.web("tier")
    with socket.create_server(("127.0.0.1", component.ports[0])), pytest.raises(DeployError) as refused:
        site.up(site.plan(component))
    assert f"port {component.ports[0]} of tier is busy, held by process {os.getpid()}" in str(refused.value)
    assert site.said == []


def test_what_can_t_be_placed_is_refused_in_seconds_with_what_there_is(site: Site) -> None:
    began_s = now_s()
    with pytest.raises(DeployError, match=r"asks 1 CPU and 64 GPU; \d+ CPU and .* GPU available"):
        site.up(site.plan(replace(site.web("engine"), cpus=1, gpus=64)))
    assert now_s() - began_s < LIMIT_S
    reserving = site.up(site.plan(replace(site.web("engine"), cpus=1)))
    assert reserving.component_status("engine").state == "ready"


def test_an_address_where_no_ray_answers_is_refused(site: Site, port: int) -> None:
    began_s = now_s()
    with pytest.raises(DeployError, match=f"no Ray answers at 127.0.0.1:{port}"):
        site.up(site.plan(site.web("tier")), address=f"127.0.0.1:{port}")
    assert now_s() - began_s < 15
    assert status(site.state) == []


def test_a_kept_deployment_outlives_the_process_that_made_it(site: Site, drive: Drive) -> None:
    driver = drive(site.plan(site.web("tier")), "keep")
    heard = hears(driver, "up")
    assert driver.wait(LIMIT_S) == 0
    # Nothing but our own words reaches the terminal.
    assert all(text.startswith(("starting a Ray", "tier: ", "up")) for text in heard)
    [found] = status(site.state)
    assert (found.state, found.kept) == ("up", True)
    record = site.record()
    find_deployment("small", site.state).down()
    assert leftovers(record, site.state) == []


@pytest.mark.parametrize("word", ["engine: starting", "up"])
def test_when_the_driver_is_killed_the_deployment_takes_itself_down(site: Site, drive: Drive, word: str) -> None:
    engine = site.web("engine", "tier")
    never = replace(engine, command=("sleep", "1000"))
    plan = site.plan(site.web("tier"), engine if word == "up" else never)
    driver = drive(plan, "pause")
    hears(driver, word)
    record = site.record()
    assert marked("TESTBED_DEPLOYMENT", record.mark)
    driver.kill()
    driver.wait()
    # the lease, then the grace of the trees, then the keeper's next look
    wait_for(lambda: status(site.state) == [], limit_s=LIMIT_S, what="the end of the deployment")
    assert leftovers(record, site.state) == []


def test_a_lease_holds_while_it_is_renewed_and_no_longer(site: Site) -> None:
    deployment = up(site.plan(site.web("tier")), state=site.state, talk=site.said.append, lease_s=2.0)
    with deployment.keep_lease():
        # two and a half leases
        threading.Event().wait(5.0)
        assert deployment.component_status("tier").state == "ready"
    wait_for(lambda: deployment.component_status("tier").state == "expired", limit_s=LIMIT_S, what="the end of it")
    assert status(site.state)[0].state == "dead"
    deployment.down()
    assert leftovers(deployment.record, site.state) == []


def test_when_a_supervisor_is_killed_its_tree_ends_and_status_tells(site: Site) -> None:
    deployment = site.up(site.plan(site.web("tier"), site.web("engine")))
    pid = deployment.component_status("tier").pid
    assert pid is not None
    server = look(pid)
    assert server is not None
    os.kill(site.supervisor("tier").pid, signal.SIGKILL)
    wait_for(lambda: not alive(server.id), limit_s=LIMIT_S, what="the end of its tree")
    [found] = status(site.state)
    assert found.state == "degraded"
    assert [component.state for component in found.components] == ["gone", "ready"]
    with pytest.raises(DeployError, match="is up, but tier is not ready"):
        site.up(deployment.plan)
    deployment.down()
    assert leftovers(deployment.record, site.state) == []


@pytest.mark.parametrize("program", ["raylet", "gcs_server"])
def test_when_the_ray_head_is_killed_all_trees_end_and_status_tells(site: Site, program: str) -> None:
    deployment = site.up(site.plan(site.web("tier"), site.web("engine", "tier")))
    members = marked("TESTBED_DEPLOYMENT", deployment.record.mark)
    keeper = site.keeper()
    os.kill(site.part_of_head(program).pid, signal.SIGKILL)
    wait_for(lambda: not any(alive(member) for member in members), limit_s=LIMIT_S, what="the end of all trees")
    wait_for(lambda: not alive(keeper.process), limit_s=LIMIT_S, what="the end of the keeper")
    assert not Path(keeper.temp).exists()
    [found] = status(site.state)
    assert (found.state, found.ray) == ("dead", "does not answer")
    assert [component.state for component in found.components] == ["gone", "gone"]
    assert "the Ray head died" in (site.state / "keeper/keeper.log").read_text()
    down("small", site.state, site.said.append)
    assert leftovers(deployment.record, site.state) == []


def test_when_the_keeper_is_killed_its_head_goes_and_the_next_up_says_so(site: Site) -> None:
    deployment = site.up(site.plan(site.web("tier")))
    members = [*marked("TESTBED_DEPLOYMENT", deployment.record.mark), site.supervisor("tier")]
    keeper = site.keeper()
    os.kill(keeper.process.pid, signal.SIGKILL)
    wait_for(lambda: not any(alive(member) for member in members), limit_s=LIMIT_S, what="the end of all trees")
    again = site.up(deployment.plan)
    assert f"our Ray head at {keeper.address} has lost its keeper; starting another" in site.said
    assert again.component_status("tier").state == "ready"
    assert not Path(keeper.temp).exists()


@pytest.fixture
def foreign_ray() -> Iterator[str]:
    """A Ray that somebody else runs on this machine."""
    folder = Path(tempfile.mkdtemp(prefix="testbed-other-"))
    port = free_port(LOOPBACK)
    environment = {**os.environ, "PYTHONPATH": SOURCES, "RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
    command = [sys.executable, "-m", "testbed.deploy.head", f"--temp={folder}", f"--port={port}", "--cpus=1",
               f"--ready={folder / 'ready'}"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        wait_for(lambda: (folder / "ready").exists(), limit_s=60.0, what="the other Ray")
        yield f"{LOOPBACK}:{port}"
        process.kill()
    shutil.rmtree(folder, ignore_errors=True)


def test_another_ray_on_the_machine_is_neither_joined_nor_touched(
    site: Site, foreign_ray: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", foreign_ray)
    deployment = site.up(site.plan(site.web("tier")))
    keeper = site.keeper()
    assert f"RAY_ADDRESS is {foreign_ray} (a Ray answers there); it is not used without --address" in site.said
    assert deployment.record.address == keeper.address != foreign_ray
    deployment.down()
    # With its last deployment our head ends by itself.
    wait_for(lambda: not alive(keeper.process), limit_s=LIMIT_S, what="the end of our head")
    assert not Path(keeper.temp).exists()
    assert answers(foreign_ray)


def test_a_process_that_is_terminated_still_does_what_it_meant_to(site: Site, terminations: list[int]) -> None:
    # joining a cluster puts Ray's own handler in place of ours, which ends the process at once
    disconnect()
    site.up(site.plan(site.web("a")))
    os.kill(os.getpid(), signal.SIGTERM)
    wait_for(lambda: terminations == [signal.SIGTERM], limit_s=LIMIT_S, what="our own handler")


@pytest.fixture
def terminations() -> Iterator[list[int]]:
    """Each SIGTERM that reaches Python."""
    seen: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: seen.append(number))
    yield seen
    signal.signal(signal.SIGTERM, before)
