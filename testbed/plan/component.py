"""The processes of a deployment, as text that a supervisor can start."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Ready:
    """When a component counts as ready: an HTTP request answered with 200, or a TCP port that accepts.

    With `body` the request is a POST of that JSON text. `port` alone means TCP.
    """

    limit_s: float
    url: str | None = None
    body: str | None = None
    port: int | None = None


@dataclass(frozen=True)
class Component:
    """One process tree. `needs` are components that must be ready before it starts.

    `cpus` and `gpus` are Ray resources. `shared_memory` are names below /dev/shm that it may leave when killed. `files`
    must be there before it starts: absolute path to text. `node` is the address of the machine that it runs on.
    """

    name: str
    command: tuple[str, ...]
    ready: Ready
    env: dict[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()
    shared_memory: tuple[str, ...] = ()
    cpus: float = 0.0
    gpus: float = 0.0
    files: dict[str, str] = field(default_factory=dict)
    node: str = "127.0.0.1"


@dataclass(frozen=True)
class DeploymentPlan:
    """All components of one deployment. `folder` (absolute) holds their logs and temporary files."""

    name: str
    components: tuple[Component, ...]
    folder: str
