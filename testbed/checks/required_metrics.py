"""The numbers that the experiment asks for are there, in every arm that can have them."""

from testbed.checks.verdict import Finding, passed, unknown
from testbed.metrics.analysis import Analysis
from testbed.metrics.declaration import RequestMetric
from testbed.metrics.table import declared_metrics, values_of
from testbed.missing import Missing


def check(analysis: Analysis) -> Finding | None:
    """A metric that needs the probe is not asked of an arm without one."""
    required = analysis.run.manifest.required_metrics
    if not required:
        return None
    declared = {metric.name: metric for metric in declared_metrics()}
    wrong = []
    for name in required:
        metric = declared.get(name)
        if metric is None:
            wrong.append(f"{name} is not a metric; known are {', '.join(declared)}")
            continue
        for arm in analysis.arms:
            if metric.needs_probe and not arm.probed:
                continue
            found = (
                values_of(metric, analysis.in_arm(arm.name)) if isinstance(metric, RequestMetric)
                else metric.compute(analysis.arm_view(arm))
            )
            if isinstance(found, Missing):
                wrong.append(f"{name} in arm {arm.name}: {found.reason}")
    if wrong:
        return unknown("a required metric has no value", wrong)
    return passed(f"all {len(required)} required metrics have a value in each arm")
