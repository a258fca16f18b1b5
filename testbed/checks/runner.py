"""Run all checks over a run, and turn their verdicts into an exit code."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from testbed.checks import (
    arrivals_as_intended,
    client_had_room,
    client_in_time,
    control_clean,
    deadline_kept,
    engine_lived,
    enough_succeeded,
    fault_fired,
    hits_as_planned,
    journal_whole,
    ledger_adds_up,
    length_honoured,
    limits_tell,
    load_bound,
    nothing_left,
    outcomes_add_up,
    outputs_golden,
    policy_honoured,
    rate_reached,
    recompute_as_predicted,
    required_metrics,
    reset_proven,
)
from testbed.checks.verdict import Finding, Verdict
from testbed.journal.run import Run
from testbed.metrics.analysis import Analysis

VALID, FAILED, INVALID = 0, 1, 4
EXIT_MEANINGS = {
    VALID: "valid, all checks pass",
    FAILED: "a check failed",
    INVALID: "the run is not valid: something can't be shown",
}


LOAD_CHECKS = frozenset({
    "journal_whole", "outcomes_add_up", "enough_succeeded", "length_honoured", "client_in_time", "rate_reached",
    "arrivals_as_intended", "client_had_room",
})
"""What can be asked of a load: it has a client and its answers, but no deployment, no golden answer and no reset."""


@dataclass(frozen=True)
class Check:
    """A named check and what it asks."""

    name: str
    asks: str
    judge: Callable[[Analysis], Finding | None]


CHECKS = (
    Check("journal_whole", "Is the record whole?", journal_whole.check),
    Check("outcomes_add_up", "Did each planned request end exactly once?", outcomes_add_up.check),
    Check("enough_succeeded", "Did enough requests succeed to speak of?", enough_succeeded.check),
    Check("engine_lived", "Did nothing die, and no request without a cause?", engine_lived.check),
    Check("outputs_golden", "Is every answer right?", outputs_golden.check),
    Check("length_honoured", "Is every answer as long as asked?", length_honoured.check),
    Check("ledger_adds_up", "Does each token have exactly one source?", ledger_adds_up.check),
    Check("fault_fired", "Did each fault do what was planned, and nothing else?", fault_fired.check),
    Check("recompute_as_predicted", "Was exactly the lost part recomputed?", recompute_as_predicted.check),
    Check("policy_honoured", "Were failed loads handled by the policy?", policy_honoured.check),
    Check("deadline_kept", "Did no late load count as good?", deadline_kept.check),
    Check("control_clean", "Do controls differ by the fault alone?", control_clean.check),
    Check("reset_proven", "Did each arm start empty?", reset_proven.check),
    Check("hits_as_planned", "Did no request find more than planned?", hits_as_planned.check),
    Check("client_in_time", "Did the client send on time?", client_in_time.check),
    Check("rate_reached", "Was the load sent that was asked for?", rate_reached.check),
    Check("arrivals_as_intended", "Are the arrivals those of the process?", arrivals_as_intended.check),
    Check("client_had_room", "Was the client itself no limit?", client_had_room.check),
    Check("load_bound", "Was no load faster than possible?", load_bound.check),
    Check("limits_tell", "Do the limits tell the arms apart?", limits_tell.check),
    Check("required_metrics", "Are the required numbers there?", required_metrics.check),
    Check("nothing_left", "Is everything gone that the run started?", nothing_left.check),
)


def run_checks(run: Run) -> list[Verdict]:
    """The verdicts of all checks that apply to this run, in a fixed order."""
    return check_analysis(Analysis(run))


def check_analysis(analysis: Analysis, checks: Iterable[Check] = CHECKS) -> list[Verdict]:
    """`run_checks` for a caller that has an analysis already."""
    is_load = analysis.run.manifest.kind == "load"
    asked = (check for check in checks if not is_load or check.name in LOAD_CHECKS)
    return [verdict for check in asked if (verdict := _judge(check, analysis)) is not None]


def _judge(check: Check, analysis: Analysis) -> Verdict | None:
    try:
        finding = check.judge(analysis)
    except Exception as problem:  # a check that crashed has shown nothing, and must not end the others
        return Verdict(check.name, "UNKNOWN", f"the check itself broke: {type(problem).__name__}: {problem}")
    return None if finding is None else Verdict(check.name, finding.status, finding.text, finding.evidence)


def exit_code(verdicts: Iterable[Verdict], run: Run) -> int:
    """0 all pass, 1 a FAIL, 4 an UNKNOWN or a run that did not complete; 4 comes before 1."""
    statuses = {verdict.status for verdict in verdicts}
    if not statuses or "UNKNOWN" in statuses or run.manifest.status != "complete":
        return INVALID
    return FAILED if "FAIL" in statuses else VALID
