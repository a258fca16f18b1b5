"""The first section of a load's report: what was sent where, how it ended, and what that can't tell."""

from testbed.checks.verdict import Verdict
from testbed.journal.manifest import LoadFacts
from testbed.metrics.analysis import Analysis
from testbed.report.content import Block, Items, Section, Text
from testbed.report.load_summary import STAND_IN, outcome_lines


def load_section(analysis: Analysis, verdicts: list[Verdict], facts: LoadFacts) -> Section:
    """The summary of a load; whatever failed comes first."""
    manifest = analysis.run.manifest
    blocks: list[Block] = [Text(STAND_IN, "warning")] if manifest.stub else []
    bad = tuple(f"{one.status} {one.check}: {one.text}" for one in verdicts if one.status != "PASS")
    if bad:
        blocks.append(Items(bad))
    blocks += [
        Items(tuple(line.strip() for line in outcome_lines(analysis))),
        Text(f"To {facts.url}{facts.path}, prompts sent as {facts.prompts}, planned lengths in {facts.lengths}."),
        Items((
            "Nothing was deployed and nothing reset: what the server had in its caches, and who else used it, is not "
            "known.",
            "Outputs were not checked: there are no golden answers.",
            "Sent once: intervals show the scatter among requests, not among repetitions.",
        )),
    ]
    return Section("Summary", tuple(blocks))
