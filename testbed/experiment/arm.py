"""One arm, from reset to healed faults."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from failure_injection.catalogue import make_fault
from failure_injection.fault import Fault
from testbed.clock import now_s
from testbed.drive.endpoint import Endpoint
from testbed.drive.options import DriveOptions
from testbed.drive.schedule import DriveResult, Progress, drive
from testbed.engines.api import EngineApi
from testbed.errors import RunError
from testbed.experiment.client import journal_drive
from testbed.experiment.faults import fault_label
from testbed.experiment.injector import Injector
from testbed.experiment.live import Live, LiveTier
from testbed.experiment.reset import reset_with_proof
from testbed.experiment.stop import Stop
from testbed.experiment.watch import EngineLog, Watch
from testbed.journal.events import ArmBegan, ArmEnded
from testbed.journal.manifest import Golden
from testbed.observe.collector import Collector, Read
from testbed.plan.aims import aimed_at
from testbed.plan.experiment import ArmPlan, ExperimentPlan
from testbed.spec.experiment import FaultSpec
from testbed.workload.request import PlannedRequest

Talk = Callable[[str], None]
DRIVE = DriveOptions()
"""One process, in an open loop: far more than any engine here can serve."""
_MARGIN_S = 120.0
_TOLD_EVERY_S = 10.0


@dataclass(frozen=True)
class ArmRun:
    """What an arm needs beside its deployment."""

    run: str
    plan: ExperimentPlan
    golden: Golden
    canary: Sequence[int]
    warm_up: Sequence[int]
    talk: Talk
    stop: Stop


def request_name(run: str, arm: str, repetition: int, part: str) -> str:
    """The id of a request as it travels: RUN.ARM.REP.NUMBER; what is not measured has a word of its own for its arm."""
    return f"{run}.{arm}.{repetition}.{part}"


def run_arm(context: ArmRun, arm: ArmPlan, live: Live, repetition: int, sources: dict[str, Read]) -> DriveResult:
    """Reset with proof, fill, inject, drive, drain, gather evidence, heal.

    Raises: RunError when the reset is not proven, or a part of the deployment stops answering.
    """
    name = arm.arm.name
    live.enter(name, repetition)
    watch = Watch(live.run_folder / "events", name, repetition)
    context.talk(f"{name}: reset with proof")
    reset_with_proof(live, watch, context.canary, request_name(context.run, "canary", repetition, name))
    live.front.complete(context.warm_up, 2, request_name(context.run, "warmup", repetition, name))
    if context.plan.specs.experiment.fill == "documents":
        _fill(context, live, name, repetition)
    target = _target(context, arm, live, watch, repetition)
    faults = _faults(context, arm, repetition)
    if live.tier is not None and faults:
        live.tier.learn(target.prompts.values())
    with Collector(sources, live.journal, context.plan.facts.model.kv_bytes_per_token):
        result = _measured(context, arm, live, repetition, Injector(faults, target, live.journal))
        left = live.await_saved()
    live.check_alive()
    complete = not result.interrupted and left == 0
    live.journal.write(ArmEnded, complete=complete, reason="interrupted" if result.interrupted else "")
    return result


def _fill(context: ArmRun, live: Live, name: str, repetition: int) -> None:
    """Ask each document once, one after another; nothing of it is measured."""
    fill = context.plan.workload.fill
    context.talk(f"{name}: filling with {len(fill)} documents")
    for request in fill:
        named = request_name(context.run, "fill", repetition, f"{name}-{request.index}")
        salt = None if request.cache_salt is None else {"cache_salt": request.cache_salt}
        live.front.complete(request.prompt, request.max_tokens, named, salt)
    live.await_saved()


def _target(context: ArmRun, arm: ArmPlan, live: Live, watch: Watch, repetition: int) -> LiveTier:
    requests = context.plan.workload.requests
    ids = [request_name(context.run, arm.arm.name, repetition, str(one.index)) for one in requests]
    tier = arm.topology.tier
    longest_s = max(one.timeout_s for one in requests)
    return LiveTier(
        live=live,
        watch=watch,
        log=EngineLog(live.engine_log),
        golden=context.golden,
        prompts={name: one.prompt for name, one in zip(ids, requests, strict=True)},
        keys={name: one.prompt_key for name, one in zip(ids, requests, strict=True)},
        kind=tier.kind,
        load_deadline_s=arm.topology.load_deadline_s,
        alive_s=context.plan.workload.duration_s + longest_s + _MARGIN_S,
        canary=context.canary,
        canary_id=request_name(context.run, "canary", repetition, f"{arm.arm.name}-healed"),
    )


def _faults(context: ArmRun, arm: ArmPlan, repetition: int) -> list[tuple[FaultSpec, Fault]]:
    """The arm's faults, aimed at this arm's requests."""
    return [
        (spec, make_fault(spec, fault_label(number, spec), _aimed_at(context, arm, spec, repetition)))
        for number, spec in enumerate(arm.arm.faults)
    ]


def _aimed_at(context: ArmRun, arm: ArmPlan, spec: FaultSpec, repetition: int) -> tuple[str, ...]:
    chosen = aimed_at(spec, context.plan.workload.requests, arm.expected)
    return tuple(request_name(context.run, arm.arm.name, repetition, str(index)) for index in chosen)


def _measured(context: ArmRun, arm: ArmPlan, live: Live, repetition: int, injector: Injector) -> DriveResult:
    name = arm.arm.name
    requests = context.plan.workload.requests
    context.talk(f"{name}: {len(requests)} requests over {context.plan.workload.duration_s:.0f} s")
    told = _Told(context.talk, name)

    policy = live.engine.settings()["load_failure_policy"] if arm.probed else "none"

    def began(zero_at_ns: int) -> None:
        live.journal.write(ArmBegan, zero_at_ns=zero_at_ns, probed=arm.probed, policy=policy)

    def named(one: PlannedRequest) -> str:
        return request_name(context.run, name, repetition, str(one.index))

    with injector, context.stop.driving():
        result = drive(
            requests,
            Endpoint(live.front.url, live.front.served_name),
            live.journal,
            request_id=named,
            on_zero=began,
            on_progress=told,
            should_stop=lambda: context.stop.asked,
            options=DRIVE,
        )
        journal_drive(live.journal, result, DRIVE)
    counts = ", ".join(f"{count} {outcome}" for outcome, count in sorted(result.counts.items()) if count)
    context.talk(f"{name}: {counts}; send lag p99 {result.send_lag_p99_s} s, longest {result.send_lag_max_s} s")
    return result


class _Told:
    """Tells the progress of a drive, but not at each call."""

    def __init__(self, talk: Talk, arm: str) -> None:
        self._talk = talk
        self._arm = arm
        self._last_s = now_s()

    def __call__(self, progress: Progress) -> None:
        if now_s() - self._last_s >= _TOLD_EVERY_S:
            self._last_s = now_s()
            self._talk(f"{self._arm}: {progress.sent} of {progress.planned} sent, {progress.ended} ended")


def warm_up_engines(engines: Sequence[EngineApi], prompt: Sequence[int], run: str, talk: Talk) -> None:
    """The first long prefill of a fresh engine takes many times longer than any after it."""
    talk("warming up the engine" if len(engines) == 1 else f"warming up {len(engines)} engines")
    for number, engine in enumerate(engines):
        answer = engine.complete(prompt, 2, f"{run}.warmup.0.{number}")
        if not answer["choices"]:
            raise RunError("the warm-up request had no answer", where=engine.url)
