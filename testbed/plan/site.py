"""What a deployment is planned from, and what its plan is: processes, and how to reach them once they are up."""

from collections.abc import Mapping
from dataclasses import dataclass

from testbed.engines.command import EngineSettings
from testbed.plan.component import DeploymentPlan
from testbed.plan.facts import GpuFacts, MachineFacts, ModelFacts
from testbed.plan.memory import EngineKvPlan
from testbed.spec.routing import LegRole
from testbed.spec.topology import Topology

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Site:
    """What a deployment is planned from. `folder` is its own; `max_model_len` fits the longest request.

    Without `gpus` its engines run on this machine's processor. `kv` is each engine's own KV memory; on GPUs its number
    of blocks may be left open (None), and an engine takes what its share of the memory leaves.
    """

    name: str
    folder: str
    topology: Topology
    model: ModelFacts
    machine: MachineFacts
    kv: EngineKvPlan
    max_model_len: int
    prefix_caching: bool = True
    gpus: GpuFacts | None = None

    @property
    def orders_path(self) -> str:
        """The file by which the probes inside the engines are told what to do."""
        return f"{self.folder}/orders.json"

    @property
    def events_folder(self) -> str:
        """Where events go that belong to no run."""
        return f"{self.folder}/events"

    @property
    def model_path(self) -> str:
        """The path that engines are given as their model: one of this deployment's own, so that its keys are too."""
        return f"{self.folder}/models/{self.model.name}"


@dataclass(frozen=True)
class LmcacheAccess:
    """How to reach an LMCache server: its HTTP port, the Redis behind it, and its unit of storage."""

    http_port: int
    chunk_tokens: int
    redis_url: str | None


@dataclass(frozen=True)
class StoreAccess:
    """How to reach a Mooncake Store: the ports of its master by name, and its unit of storage."""

    ports: Mapping[str, int]
    chunk_tokens: int


@dataclass(frozen=True)
class FilesAccess:
    """Where a tier of files keeps them, and its unit of storage."""

    folder: str
    chunk_tokens: int


TierAccess = LmcacheAccess | StoreAccess | FilesAccess


@dataclass(frozen=True)
class EnginePart:
    """One engine: a component of its name. `orders_path` is where its probe is told what to do, None without one.

    `peer_url` is where it says who it is, for a transfer that asks.
    """

    name: str
    role: LegRole
    settings: EngineSettings
    url: str
    orders_path: str | None = None
    peer_url: str | None = None

    @property
    def metrics_url(self) -> str:
        """Its own counters."""
        return f"{self.url}/metrics"


@dataclass(frozen=True)
class Deployable:
    """A deployment, and how to reach it once it is up. `tier` is None where its engines share none."""

    site: Site
    plan: DeploymentPlan
    engines: tuple[EnginePart, ...]
    router_url: str | None = None
    tier: TierAccess | None = None

    @property
    def client_url(self) -> str:
        """Where requests go: the router's, else the only engine's own."""
        return self.engines[0].url if self.router_url is None else self.router_url

    @property
    def served_name(self) -> str:
        """The name by which all engines serve the model."""
        return self.engines[0].settings.served_name

    @property
    def probed(self) -> bool:
        """True where the engines have a connector, and so a probe."""
        return self.engines[0].orders_path is not None

    def having(self, role: LegRole) -> tuple[EnginePart, ...]:
        """The engines of one role."""
        return tuple(part for part in self.engines if part.role == role)
