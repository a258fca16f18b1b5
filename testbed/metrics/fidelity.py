"""How true the client was to the plan: declared numbers of each arm, and the limits beyond which a run is not valid.

The limit of the send lag and the floor of success stand in the manifest, for they belong to the experiment; those here
belong to the instrument.
"""

from collections.abc import Callable

from testbed.metrics import drives
from testbed.metrics.declaration import ArmMetric, Estimate
from testbed.metrics.drives import Drive
from testbed.metrics.outcomes import COUNT
from testbed.metrics.views import ALL_CLASSES, ArmView
from testbed.missing import Missing

RATE_REACHED_RATIO = 0.98
"""Below this share of the offered rate the load was another than the one that was asked for."""
ARRIVAL_DISTANCE_LIMIT = 0.05
"""The largest share of the schedule by which sends may be behind, lags within the lag limit aside."""
PROCESS_DISTANCE_FACTOR = 1.5
"""A plan may lie so many times as far from its process as one right plan in twenty does; one in 2,000 lies beyond."""
CPU_LIMIT_RATIO = 0.9
"""A client that computes for more of its time has no room for the next burst."""
STALL_LIMIT_S = 1.0
"""The longest time for which its loop may stand still: what comes meanwhile gets a late stamp."""
STALLS_PER_S_LIMIT = 20.0
"""Of its hundred looks at the clock in a second so many may be late: engine and client may share a machine."""


def _worst(pick: Callable[[Drive], float | Missing]) -> Callable[[ArmView], Estimate | Missing]:
    """The largest value of the repetitions."""
    def compute(view: ArmView) -> Estimate | Missing:
        values = [pick(drive) for drive in view.drives]
        missing = next((value for value in values if isinstance(value, Missing)), None)
        if missing is not None:
            return missing
        known = [value for value in values if not isinstance(value, Missing)]
        if not known:
            return Missing("no request of this class was planned")
        return Estimate(max(known), len(view.requests), COUNT)
    return compute


def _of_the_client(pick: Callable[[Drive], float | Missing]) -> Callable[[ArmView], Estimate | Missing]:
    """A number of the client, which sends all classes alike."""
    def compute(view: ArmView) -> Estimate | Missing:
        if view.traffic_class != ALL_CLASSES:
            return Missing("told for all classes together")
        return _worst(pick)(view)
    return compute


def _metric(
    name: str, unit: str, needs: str, meaning: str, compute: Callable[[ArmView], Estimate | Missing],
) -> ArmMetric:
    return ArmMetric(
        name=name, unit=unit, better="lower", needs=("request_sent", needs), statistics=("worst",), meaning=meaning,
        compute=compute,
    )


FIDELITY_METRICS = (
    _metric(
        "send_lag_max_s", "s", "request_planned", "how late the client sent at its latest", _worst(drives.lag_max_s),
    ),
    _metric(
        "arrival_distance", "", "request_planned",
        "largest share of the schedule by which sends were behind it: Kolmogorov and Smirnov's distance of both",
        _worst(drives.arrival_distance),
    ),
    _metric(
        "client_cpu_ratio", "", "drive_ended", "CPU time of the client ÷ time of the drive ÷ its processes",
        _of_the_client(drives.cpu_ratio),
    ),
    _metric(
        "client_stall_s", "s", "drive_ended", "longest time by which the client's loop was held up",
        _of_the_client(drives.stall_max_s),
    ),
    _metric(
        "client_stalls_per_s", "1/s", "drive_ended", "how often the loop of a client process was held up, each second",
        _of_the_client(drives.stalls_per_s),
    ),
)
