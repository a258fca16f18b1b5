"""A run with everything that is derived from it once and read by many: rows, drives, ledgers, matches, loads."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from testbed.journal.events import FaultApplied, StepScheduled
from testbed.journal.manifest import ArmFacts
from testbed.journal.run import Run
from testbed.metrics.drives import Drive, drives_of
from testbed.metrics.golden import match_of
from testbed.metrics.hits import Hit, first_steps, prefix_hits
from testbed.metrics.ledger import Ledgers, build_ledgers
from testbed.metrics.loads import Load, loads_of
from testbed.metrics.requests import NS, RequestRow, Requests, join_requests
from testbed.metrics.views import ALL_CLASSES, ArmView, RequestView
from testbed.missing import Missing


@dataclass(frozen=True)
class Analysis:
    """Derives each part on first use and keeps it; `run` is not to change meanwhile."""

    run: Run

    @property
    def arms(self) -> list[ArmFacts]:
        """The arms in the order in which the user wrote them."""
        return self.run.manifest.arms

    def arm(self, name: str) -> ArmFacts | None:
        """The facts of one arm."""
        return next((arm for arm in self.arms if arm.name == name), None)

    @cached_property
    def requests(self) -> Requests:
        """All planned requests with their ends."""
        return join_requests(self.run)

    @cached_property
    def drives(self) -> tuple[Drive, ...]:
        """Each repetition of each arm as the client drove it."""
        return drives_of(self.run, self.requests.rows)

    @cached_property
    def ledgers(self) -> Ledgers:
        """The recompute ledger of each request."""
        return build_ledgers(self.run, self.requests.rows)

    @cached_property
    def hits(self) -> tuple[Hit, ...]:
        """Prefix hits, planned and found, of each request for which both are known."""
        began = first_steps(self.run.journal.select(StepScheduled))
        rows: dict[tuple[str, int], list[RequestRow]] = {}
        for row in self.requests.rows:
            rows.setdefault((row.arm, row.repetition), []).append(row)
        return tuple(
            hit
            for arm in self.arms for (name, _), of_drive in rows.items() if name == arm.name
            for hit in prefix_hits(of_drive, self.ledgers.by_id, began if arm.probed else {})
        )

    @cached_property
    def loads(self) -> tuple[Load, ...]:
        """All loads that ended."""
        return loads_of(self.run)

    @cached_property
    def loads_by_request(self) -> dict[str, tuple[Load, ...]]:
        """Loads by request id."""
        found: dict[str, list[Load]] = {}
        for load in self.loads:
            found.setdefault(load.request_id, []).append(load)
        return {one: tuple(loads) for one, loads in found.items()}

    @cached_property
    def views(self) -> tuple[RequestView, ...]:
        """The measured requests with all that is known of each."""
        limits, checked = self.run.manifest.limits, bool(self.run.golden)
        return tuple(
            RequestView(
                row, self.ledgers.by_id[row.request_id], match_of(row, self.run), limits.get(row.traffic_class),
                self.loads_by_request.get(row.request_id, ()), checked,
            )
            for row in self.requests.rows if row.measured
        )

    @cached_property
    def views_by_id(self) -> dict[str, RequestView]:
        """The measured requests by id."""
        return {view.row.request_id: view for view in self.views}

    @cached_property
    def classes(self) -> tuple[str, ...]:
        """The traffic classes in order of their names."""
        return tuple(sorted({view.row.traffic_class for view in self.views}))

    @cached_property
    def _by_arm_and_class(self) -> dict[tuple[str, str], tuple[RequestView, ...]]:
        found: dict[tuple[str, str], list[RequestView]] = {}
        for view in self.views:
            for traffic_class in (ALL_CLASSES, view.row.traffic_class):
                found.setdefault((view.row.arm, traffic_class), []).append(view)
        return {key: tuple(views) for key, views in found.items()}

    @cached_property
    def windows_s(self) -> dict[str, float | Missing]:
        """Seconds from the first scheduled to the last end of each arm, summed over its repetitions."""
        return {arm.name: _window_s([view.row for view in self.in_arm(arm.name)]) for arm in self.arms}

    def in_arm(self, arm: str, traffic_class: str = ALL_CLASSES) -> tuple[RequestView, ...]:
        """The measured requests of one arm, of one class if given."""
        return self._by_arm_and_class.get((arm, traffic_class), ())

    def arm_view(self, arm: ArmFacts, traffic_class: str = ALL_CLASSES) -> ArmView:
        """One arm, or one class of it, as an arm metric sees it."""
        return ArmView(
            arm, traffic_class, self.in_arm(arm.name, traffic_class), self.windows_s[arm.name], bool(self.run.golden),
            self._drives_by_class.get((arm.name, traffic_class), ()),
        )

    @cached_property
    def _drives_by_class(self) -> dict[tuple[str, str], tuple[Drive, ...]]:
        found: dict[tuple[str, str], list[Drive]] = {}
        for drive in self.drives:
            found.setdefault((drive.arm, ALL_CLASSES), []).append(drive)
            for name, rows in _by_class(drive.rows).items():
                found.setdefault((drive.arm, name), []).append(replace(drive, rows=tuple(rows)))
        return {key: tuple(drives) for key, drives in found.items()}

    @cached_property
    def applied(self) -> dict[tuple[str, str], tuple[FaultApplied, ...]]:
        """Where each fault began to act, by (arm, fault), one event for each request."""
        found: dict[tuple[str, str], dict[str, FaultApplied]] = {}
        for event in self.run.journal.select(FaultApplied):
            if event.phase == "began":
                found.setdefault((event.arm, event.fault), {}).setdefault(event.request_id, event)
        return {key: tuple(events.values()) for key, events in found.items()}


def _by_class(rows: Iterable[RequestRow]) -> dict[str, list[RequestRow]]:
    found: dict[str, list[RequestRow]] = {}
    for row in rows:
        found.setdefault(row.traffic_class, []).append(row)
    return found


def _window_s(rows: list[RequestRow]) -> float | Missing:
    spans: dict[int, tuple[int, int]] = {}
    for row in rows:
        if row.ended is not None:
            begin, end = spans.get(row.repetition, (row.ended.scheduled_at_ns, row.ended.ended_at_ns))
            spans[row.repetition] = min(begin, row.ended.scheduled_at_ns), max(end, row.ended.ended_at_ns)
    total = sum(end - begin for begin, end in spans.values()) / NS
    return total if total > 0 else Missing("no request of the arm has ended")
