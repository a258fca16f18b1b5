"""Which requests a fault is aimed at: chosen by the plan, so that all arms with one trigger strike the same ones.

Counted at run time, one load more or less in an arm would shift all that follow, and a fault and its control would
strike different requests, which can't be compared.
"""

from collections.abc import Sequence

from testbed.plan.expectation import Expected
from testbed.spec.experiment import FaultSpec
from testbed.workload.request import PlannedRequest


def aimed_at(spec: FaultSpec, requests: Sequence[PlannedRequest], expected: Expected) -> tuple[int, ...]:
    """Indices of the requests that `spec` is to strike: of its class, each every-th or the nth that is to load.

    Where the plan expects too few loads for that, requests that it expects none of are counted too: such a fault may
    never fire, and the run will say so.
    """
    of_class = [one.index for one in requests if spec.request_class in (None, one.traffic_class)]
    loading = [index for index in of_class if index in expected.loading]
    chosen = _counted(spec, loading)
    return chosen if chosen else _counted(spec, of_class)


def _counted(spec: FaultSpec, indices: Sequence[int]) -> tuple[int, ...]:
    if spec.trigger.nth is not None:
        return tuple(indices[spec.trigger.nth - 1 : spec.trigger.nth])
    every = spec.trigger.every if spec.trigger.every is not None else 1
    return tuple(indices[every - 1 :: every])
