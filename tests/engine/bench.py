"""One real deployment on a small model, and arms run on it one by one, each judged by its own journal."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from testbed.checks.runner import exit_code, run_checks
from testbed.checks.verdict import Verdict
from testbed.engines.models import read_shape
from testbed.experiment.arm import ArmRun, run_arm
from testbed.experiment.deployables import block_deployable
from testbed.experiment.deploying import Findings, Host, deployed
from testbed.experiment.facts import corpus_tokens, machine_facts
from testbed.experiment.golden import ask_missing, open_store
from testbed.experiment.live import Live
from testbed.experiment.record import arm_facts
from testbed.experiment.stop import Stop
from testbed.journal.manifest import Golden, Limits, Manifest, PathRate
from testbed.journal.reader import load_journal
from testbed.journal.run import Run
from testbed.journal.writer import JournalWriter
from testbed.plan.experiment import ArmPlan, ExperimentPlan, ExperimentSpecs, plan_experiment
from testbed.plan.facts import Facts, ModelFacts
from testbed.spec.experiment import Arm, Experiment
from testbed.spec.machine import Hardware, Slo
from testbed.spec.topology import Topology
from testbed.spec.workload import Workload
from testbed.workload.scale import Speed

TOPOLOGY = {
    "name": "colocated", "model": "tiny", "engines": [{"role": "both"}],
    "tier": {
        "kind": "lmcache", "memory": "512MiB", "load_deadline": "4s", "backing": {"kind": "redis", "memory": "256MiB"},
    },
    "on_load_failure": {"policy": "recompute", "attempts": 1},
}
DOCUMENTS = {"count": 5, "tokens": {"uniform": [200, 300]}, "popularity": {"zipf": 0}}
WORKLOAD = {
    "name": "small", "duration": "6s",
    "classes": {
        "doc": {
            "arrival": {"process": "constant", "rate": 2}, "input": {"fixed": 16}, "output": {"fixed": 24},
            "documents": DOCUMENTS, "stop": "forced", "timeout": "60s",
        },
    },
}
# Too short for one whole block: it can never load anything from a tier.
CHAT = {
    "arrival": {"process": "constant", "rate": 1}, "input": {"fixed": 20}, "output": {"fixed": 4}, "stop": "forced",
    "timeout": "60s",
}
# Only that the bound is judged is tested here: no copy in memory comes near 10 TB/s.
LOAD_PATH = PathRate(
    path="shared_memory_copy", nominal_bytes_per_s=None, calibrated_bytes_per_s=1e13, spread_ratio=0.0, tries=10,
    source="stated",
)
LEAST_TIE_GAP_NATS = 0.01


@dataclass(frozen=True)
class Subject:
    """A model under test. Its speed is stated and not measured, so that its plan is the same on every machine."""

    name: str
    speed: Speed
    document_prefill: str
    load_deadline: str


TINY = Subject("tiny", Speed(((64, 0.05), (512, 0.4)), 0.01), document_prefill="200ms", load_deadline="4s")
# One request at a time takes it seconds on two cores, and the next one waits for its blocks that long.
SMOLLM2 = Subject("smollm2", Speed(((64, 0.3), (512, 2.0)), 0.1), document_prefill="1s", load_deadline="8s")


def stated_facts(subject: Subject, folder: Path) -> Facts:
    """Facts of this machine for a model that lies in `folder`."""
    model = ModelFacts(subject.name, str(folder), "float32", read_shape(folder).kv_bytes_per_token(4), 4096)
    return Facts(model, machine_facts(), subject.speed, corpus_tokens(folder))


def small_plan(
    subject: Subject, facts: Facts, arms: Sequence[Mapping[str, Any]], tier: Mapping[str, Any] | None = None
) -> ExperimentPlan:
    """A small experiment on one deployment, with LMCache unless `tier` says otherwise."""
    lmcache = TOPOLOGY["tier"] | {"load_deadline": subject.load_deadline}  # type: ignore[operator]
    topology = Topology.model_validate(TOPOLOGY | {"tier": tier if tier else lmcache})
    experiment = Experiment.model_validate({
        "name": "small", "topology": "colocated", "workload": "small", "slo": "any", "seed": 3,
        "engine_kv": {"working_set": 0.4}, "fill": "documents", "arms": list(arms),
    })
    classes = {**WORKLOAD["classes"], "chat": CHAT}  # type: ignore[dict-item]
    hardware = {
        "name": "cpu", "device": "cpu", "block_size": 32, "target_load": 0.5,
        "document_prefill": subject.document_prefill, "source": "test",
    }
    specs = ExperimentSpecs(
        experiment, dict.fromkeys((arm.name for arm in experiment.arms), topology),
        Workload.model_validate(WORKLOAD | {"classes": classes}), Hardware.model_validate(hardware),
        Slo(name="any", kind="multiples", ttft=100.0, tpot=100.0, source="test"), {}, {},
    )
    return plan_experiment(specs, facts)


class Salted:
    """An engine asked so that neither its own cache nor the tier can answer: each prompt has a salt of its own."""

    def __init__(self, live: Live) -> None:
        self._engine = live.engine

    def complete(self, prompt: Sequence[int], max_tokens: int, request_id: str, extra: Mapping[str, Any]) -> Any:
        return self._engine.complete(prompt, max_tokens, request_id, {**extra, "cache_salt": request_id})


@dataclass
class Bench:
    """A live deployment, its plan, and the golden answers to the plan's requests."""

    live: Live
    plan: ExperimentPlan
    golden: Golden
    tie_gap_nats: float
    run_folder: Path
    said: list[str] = field(default_factory=list)

    def run(self, name: str, *faults: Mapping[str, Any], control: str | None = None) -> "Judged":
        """Run one arm with these faults, and judge it."""
        arm = Arm.model_validate({"name": name, "faults": list(faults), "control": control})
        plan = replace(self.plan.blocks[0][0], arm=arm)
        context = ArmRun(
            run=self.run_folder.name, plan=self.plan, golden=self.golden, canary=self.canary(),
            warm_up=self.plan.facts.tokens[-200:], talk=self.said.append, stop=Stop(),
        )
        run_arm(context, plan, self.live, 0, {"engine": self.live.engine.gauges})
        return judged(self, plan)

    def canary(self) -> tuple[int, ...]:
        """A prompt of three blocks that no request begins like."""
        return tuple(reversed(self.plan.facts.tokens[-101:]))


@contextmanager
def bench_on(subject: Subject, model: Path, folder: Path) -> Iterator[Bench]:
    """A deployment below `folder` with its golden answers; at the end nothing of it may be left."""
    run_folder, state = folder / "bench", folder / "state"
    (run_folder / "events").mkdir(parents=True)
    facts = stated_facts(subject, model)
    plan = small_plan(subject, facts, [{"name": "tier"}])
    findings = Findings()
    with closing(JournalWriter(run_folder / "events", "driver")) as journal:
        host = Host(run_folder, journal, state, print, findings)
        deployable = block_deployable(plan, 0, "bench-0", state / "sites" / "bench-0", facts)
        with deployed(deployable, host, facts.tokens[:200]) as live:
            engine: Any = Salted(live)
            requests = plan.workload.requests
            store = ask_missing(open_store(run_folder, {"dtype": "float32"}), requests, engine, print)
            gap = max(LEAST_TIE_GAP_NATS, store.tie_gap_nats)
            yield Bench(live, plan, store.answers_to(requests), gap, run_folder)
    assert findings.left == []


@dataclass(frozen=True)
class Judged:
    """One arm's own run, its verdicts, and the exit code that they come to."""

    run: Run
    verdicts: tuple[Verdict, ...]
    code: int

    def of(self, check: str) -> Verdict:
        """The verdict of one check."""
        return next(one for one in self.verdicts if one.check == check)

    def failing(self) -> dict[str, str]:
        """Checks that do not pass, with what they say."""
        bad = [one for one in self.verdicts if one.status != "PASS"]
        return {one.check: "\n".join((one.status, one.text, *one.evidence[:5])) for one in bad}


def manifest_of(bench: Bench, arm: ArmPlan) -> Manifest:
    """The manifest of a run that consists of this arm alone."""
    plan = bench.plan
    return Manifest(
        run=bench.run_folder.name, experiment="small", created="", status="complete", seed=3, repetitions=1,
        model=plan.facts.model.name, dtype="float32", block_size=plan.kv.block_size,
        kv_bytes_per_token=plan.facts.model.kv_bytes_per_token, arms=[arm_facts(arm)],
        limits={name: Limits(ttft_s=one.ttft_s, tpot_s=one.tpot_s, derivation="") for name, one in plan.limits.items()},
        required_metrics=[], paths=[LOAD_PATH], tie_gap_nats=bench.tie_gap_nats, send_lag_limit_s=1.0, left_behind=[],
    )


def judged(bench: Bench, arm: ArmPlan) -> Judged:
    """Read the arm's events back, as a run of their own, and judge them."""
    journal = load_journal(bench.run_folder)
    events = tuple(event for event in journal.events if event.arm == arm.arm.name)
    return judge(Run(manifest_of(bench, arm), replace(journal, events=events), bench.golden))


def judge(run: Run) -> Judged:
    """The verdicts on a run, without the check that needs two arms to tell apart."""
    verdicts = tuple(one for one in run_checks(run) if one.check != "limits_tell")
    return Judged(run, verdicts, exit_code(list(verdicts), run))
