"""Run the faults of one arm: watch for struck requests, do the harm, and gather the evidence of the target."""

import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType

from failure_injection.fault import Fault
from testbed.clock import polls
from testbed.errors import RunError
from testbed.experiment.live import LiveTier
from testbed.journal.events import FaultArmed, FaultFired, FaultHealed
from testbed.journal.writer import JournalWriter
from testbed.spec.experiment import FaultSpec

_LOOK_EVERY_S = 0.02
_EVIDENCE_LIMIT_S = 3.0


class Injector:
    """Arms its faults on entry; on exit it heals them, also when the arm breaks off."""

    def __init__(self, faults: Sequence[tuple[FaultSpec, Fault]], target: LiveTier, journal: JournalWriter) -> None:
        self._faults = [fault for _, fault in faults]
        self._specs = [spec for spec, _ in faults]
        self._target = target
        self._journal = journal
        self._over = threading.Event()
        self._strikes: dict[tuple[str, str], Future[str]] = {}
        self._pool = ThreadPoolExecutor(max_workers=4, thread_name_prefix="strike")
        self._thread = threading.Thread(target=self._run, name="injector", daemon=True)
        self._problem: BaseException | None = None

    def __enter__(self) -> "Injector":
        for spec, fault in zip(self._specs, self._faults, strict=True):
            trigger = f"every {spec.trigger.every}" if spec.trigger.every is not None else f"the {spec.trigger.nth}."
            fault.arm(self._target)
            self._journal.write(
                FaultArmed,
                fault=fault.label,
                fault_kind=spec.kind,
                target=self._target.kind,
                trigger=f"{trigger} load",
                intended=spec.times,
            )
        self._thread.start()
        return self

    def _run(self) -> None:
        try:
            while not self._over.wait(_LOOK_EVERY_S):
                self._look()
        except (RunError, OSError) as problem:
            self._problem = problem

    def _look(self) -> None:
        """Take in what the journal and the log say, and strike what the probe has just chosen."""
        self._target.watch.look()
        self._target.log.look()
        for fault in self._faults:
            for request_id in self._target.watch.struck(fault.label):
                if (fault.label, request_id) not in self._strikes:
                    self._strikes[fault.label, request_id] = self._pool.submit(fault.strike, self._target, request_id)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join(timeout=10.0)
        try:
            if kind is None:
                self._gather()
        finally:
            self._pool.shutdown(wait=True, cancel_futures=True)
            for fault in self._faults:
                fault.heal(self._target)
        if kind is None:
            self._verify()
        if self._problem is not None and kind is None:
            raise RunError(f"the injector broke: {self._problem}", where="injector") from self._problem

    def _gather(self) -> None:
        """Ask the target for the evidence of each strike; a line of a log may take a moment to be written."""
        waiting = dict(self._strikes)
        for _ in polls(_EVIDENCE_LIMIT_S, 0.1):
            self._look()
            waiting = {key: shown for key, shown in waiting.items() if not self._fired(*key, shown)}
            if not waiting:
                return

    def _fired(self, label: str, request_id: str, shown: "Future[str]") -> bool:
        fault = next(one for one in self._faults if one.label == label)
        evidence = fault.fired(self._target, request_id, shown.result() if shown.done() else "")
        if evidence is None:
            return False
        self._journal.write(FaultFired, fault=label, request_id=request_id, evidence=evidence)
        return True

    def _verify(self) -> None:
        for fault in self._faults:
            healthy = fault.verify(self._target)
            detail = "a canary was loaded from the tier" if healthy else "a canary was not loaded from the tier"
            self._journal.write(FaultHealed, fault=fault.label, verified=healthy, detail=detail)
