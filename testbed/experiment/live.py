"""A live deployment as the conductor and the faults see it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from failure_injection.fault import Removed
from testbed.clock import polls
from testbed.deploy.deployment import Deployment
from testbed.deploy.state import ENDED
from testbed.engines.api import EngineApi
from testbed.errors import RunError
from testbed.experiment.channel import Channel
from testbed.experiment.routed import RouterApi
from testbed.experiment.watch import EngineLog, Watch
from testbed.journal.events import ComponentExited, KvEvicted, KvLoadEnded
from testbed.journal.manifest import Golden
from testbed.journal.writer import JournalWriter
from testbed.plan.site import Deployable
from testbed.probe.orders import Aim
from testbed.tiers.redis import RedisKeys

_SAVE_LIMIT_S = 60.0
_CLEAR_LIMIT_S = 30.0


class Deleted(Protocol):
    """A tier's own answer to a deletion: copies removed, and copies that it kept."""

    @property
    def deleted(self) -> int:
        """How many are gone."""

    @property
    def skipped(self) -> int:
        """How many are still there."""


class TierServer(Protocol):
    """A tier that runs, as far as the conductor asks it: each kind's own file has the class that does."""

    chunk_tokens: int

    def close(self) -> None:
        """Give the connections back."""

    def learn(self, prompts: Iterable[tuple[int, ...]]) -> None:
        """Work out the names of the prompts' objects beforehand."""

    def delete_prompt(self, prompt: tuple[int, ...]) -> Deleted:
        """Remove the objects of one prompt, also those that a lookup has locked."""

    def clear_memory(self) -> None:
        """Remove all objects of this deployment from the tier's memory."""

    def objects_in_memory(self) -> int:
        """How many objects the memory holds."""

    def saves_in_flight(self) -> int:
        """Objects that are still being written."""

    def counters(self) -> Mapping[str, float]:
        """The tier's own counts under neutral names."""


@dataclass(frozen=True)
class Live:
    """The parts of a deployment that can be asked. `tier`, `keys`, `channel` and `router` are None where it has none.

    `engine` is the first of its engines and `others` the rest, in the order of the plan. `engine_log` is that of the
    first engine that loads.
    """

    deployable: Deployable
    engine: EngineApi
    engine_log: Path
    journal: JournalWriter
    run_folder: Path
    tier: TierServer | None = None
    keys: RedisKeys | None = None
    channel: Channel | None = None
    deployment: Deployment | None = None
    others: tuple[EngineApi, ...] = ()
    router: RouterApi | None = None

    @property
    def engines(self) -> tuple[EngineApi, ...]:
        """All engines, in the order of the plan."""
        return (self.engine, *self.others)

    @property
    def front(self) -> EngineApi:
        """Who clients ask: the router, which answers as an engine does, else the only engine."""
        return self.engine if self.router is None else self.router.as_engine

    def enter(self, arm: str, repetition: int) -> None:
        """Events of all parts belong to the run's journal, and to this arm of it, from now on."""
        self.journal.enter(arm, repetition)
        if self.channel is not None:
            self.channel.enter(self.run_folder / "events", arm, repetition)
        if self.router is not None:
            self.router.enter(self.run_folder / "events", arm, repetition)

    def check_alive(self) -> None:
        """See that no process of the deployment ended by itself; journal each that did.

        Raises: RunError naming them.
        """
        ended = [] if self.deployment is None else [one for one in self.deployment.status() if one.state in ENDED]
        for one in ended:
            self.journal.write(
                ComponentExited,
                component=f"{self.deployable.plan.name}/{one.name}",
                exit_status=one.exit_status,
                expected=False,
            )
        if ended:
            names = ", ".join(f"{one.name} ({one.state}, status {one.exit_status})" for one in ended)
            raise RunError(f"ended while it was needed: {names}", where=self.deployable.plan.name)

    def close(self) -> None:
        """Give all connections back."""
        for part in (*self.engines, self.router, self.tier, self.keys):
            if part is not None:
                part.close()

    def await_saved(self) -> int:
        """Wait until the tier has nothing left to write; return what is still in flight at the end (0 is wanted)."""
        if self.tier is None:
            return 0
        left = self.tier.saves_in_flight()
        for _ in polls(_SAVE_LIMIT_S, 0.1):
            if left == 0:
                break
            left = self.tier.saves_in_flight()
        return left

    def clear_engine(self) -> None:
        """Empty the own prefix cache of each engine, as soon as it holds no block in use.

        Raises: RunError when one still would not after half a minute.
        """
        for engine in self.engines:
            _clear(engine)

    def clear(self) -> str:
        """Empty the engine's own cache and all levels of the tier; say what was removed."""
        self.clear_engine()
        said = ["engine prefix cache reset"]
        if self.tier is not None:
            said.append(f"{self.tier.objects_in_memory()} objects in the tier's memory cleared")
            self.tier.clear_memory()
        if self.keys is not None:
            said.append(f"{self.keys.remove()} keys removed from the backing")
        return "; ".join(said)


def _clear(engine: EngineApi) -> None:
    for _ in polls(_CLEAR_LIMIT_S, 0.2):
        if engine.reset_prefix_cache():
            return
    raise RunError("the engine would not reset its prefix cache: blocks are still in use", where=engine.url)


@dataclass
class LiveTier:
    """The target of the faults of one arm: the probe's channel, the tier, the engine and what they have shown."""

    live: Live
    watch: Watch
    log: EngineLog
    golden: Golden
    prompts: Mapping[str, tuple[int, ...]]
    keys: Mapping[str, str]
    kind: str
    load_deadline_s: float | None
    alive_s: float
    canary: Sequence[int]
    canary_id: str
    _canaries: int = 0

    def _channel(self) -> Channel:
        if self.live.channel is None:
            raise RunError("the arm has no probe to arm", where=self.kind)
        return self.live.channel

    def arm(self, aim: Aim) -> None:
        self._channel().arm(aim, self.alive_s)

    def disarm(self, fault: str) -> None:
        self._channel().disarm(fault)

    def release(self, request_id: str) -> None:
        self._channel().release(request_id)

    def remove_objects(self, request_id: str) -> Removed:
        if self.live.tier is None:
            raise RunError("the arm has no tier to delete from", where=self.kind)
        answer = self.live.tier.delete_prompt(self.prompts[request_id])
        self.live.journal.write(
            KvEvicted, request_id=request_id, objects=answer.deleted, levels=["memory", "backing"], by="injector"
        )
        return Removed(answer.deleted, answer.skipped)

    def await_deferred(self, limit_s: float) -> int:
        for _ in polls(limit_s, 0.1):
            deferred = sum(int(engine.gauges()["deferred"]) for engine in self.live.engines)
            if deferred:
                return deferred
        return 0

    def load_end(self, request_id: str) -> KvLoadEnded | None:
        return self.watch.load_ends.get(request_id)

    def recovered_tokens(self, load: KvLoadEnded) -> int | None:
        lookup = self.watch.lookups.get(load.request_id)
        tokens = load.failed_blocks * self.live.deployable.engines[0].settings.block_size
        # Of a full hit one token less is promised, and lost: the last one is computed in any case.
        if lookup is not None and load.failed_blocks == load.blocks:
            tokens = lookup.promised_tokens
        return tokens if self.log.take_failure(load.at_ns, tokens) else None

    def ttft_sent_s(self, request_id: str) -> float | None:
        ended = self.watch.ended.get(request_id)
        if ended is None or ended.first_token_at_ns is None or ended.sent_at_ns is None:
            return None
        return (ended.first_token_at_ns - ended.sent_at_ns) / 1e9

    def wrong_output(self, request_id: str) -> str | None:
        ended = self.watch.ended.get(request_id)
        right = self.golden.get(self.keys[request_id])
        if ended is None or right is None or ended.token_ids == right.token_ids:
            return None
        differs = [
            number
            for number, pair in enumerate(zip(ended.token_ids, right.token_ids, strict=False))
            if pair[0] != pair[1]
        ]
        return f"the client's answer differs from the golden one from token {differs[0] if differs else 'the end'} on"

    def canary_loads(self) -> bool:
        """Store a prompt, forget it in the engine, and see it promised by the tier and loaded."""
        self._canaries += 1
        for name in ("store", "load"):
            self.live.engine.complete(self.canary, 1, f"{self.canary_id}-{self._canaries}-{name}")
            self.live.await_saved()
            self.live.clear_engine()
        self.watch.look()
        load = self.watch.load_ends.get(f"{self.canary_id}-{self._canaries}-load")
        return load is not None and load.ok
