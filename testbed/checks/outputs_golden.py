"""Every complete answer equals the golden one, up to near-ties that are no more common than without a tier."""

from testbed.checks.verdict import Finding, failed, passed, unknown
from testbed.metrics.analysis import Analysis
from testbed.metrics.pairs import NO_TIER
from testbed.metrics.statistics import share_interval
from testbed.metrics.views import RequestView
from testbed.missing import Missing


def check(analysis: Analysis) -> Finding | None:
    """Names each wrong answer with its first differing token."""
    complete = [view for view in analysis.views if view.row.ok]
    if not complete:
        return unknown("no complete answer to compare")
    wrong = [f"{view.row.request_id}: {view.match}" for view in complete if view.match.kind == "wrong"]
    if wrong:
        return failed(f"{len(wrong)} of {len(complete)} answers are wrong", wrong)
    crowded = _more_near_ties_than_without_a_tier(analysis)
    if crowded:
        return failed("more near-ties than chance allows beside the arm without a tier", crowded)
    blind = [f"{view.row.request_id}: {view.match}" for view in complete if not view.match.right]
    if blind:
        return unknown(f"{len(blind)} of {len(complete)} answers have nothing to compare with", blind)
    ties = [f"{view.row.request_id}: {view.match}" for view in complete if view.match.kind == "near_tie"]
    return passed(f"{len(complete)} answers are right, {len(ties)} of them near-ties", ties)


def _more_near_ties_than_without_a_tier(analysis: Analysis) -> list[str]:
    bare = next((arm for arm in analysis.arms if arm.tier == NO_TIER), None)
    if bare is None:
        return []
    ties, n = _near_ties(analysis.in_arm(bare.name))
    allowed = share_interval(ties, n)
    if isinstance(allowed, Missing):
        return []
    found = []
    for arm in analysis.arms:
        mine, of = _near_ties(analysis.in_arm(arm.name))
        if arm.name != bare.name and of and mine / of > allowed[1]:
            beside = f"arm {bare.name}: {ties} of {n}, at most {allowed[1]:.3f} by chance"
            found.append(f"arm {arm.name}: {mine} of {of}; {beside}")
    return found


def _near_ties(views: tuple[RequestView, ...]) -> tuple[int, int]:
    compared = [view for view in views if view.match.right]
    return sum(view.match.kind == "near_tie" for view in compared), len(compared)
