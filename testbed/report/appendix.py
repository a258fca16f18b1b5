"""What a stranger needs to run it again: versions, seeds, host, limits, plan, and the user's own files."""

from typing import Any

from testbed.metrics.analysis import Analysis
from testbed.report.content import Block, Section, Table, Text, Verbatim, row
from testbed.report.wording import figure_number


def appendix_section(analysis: Analysis) -> Section:
    """Facts of the manifest, in a fixed order."""
    manifest = analysis.run.manifest
    facts: dict[str, Any] = {
        "run": manifest.run, "experiment": manifest.experiment, "created": manifest.created, "status": manifest.status,
        "git commit": manifest.git_commit, "seed": manifest.seed, "repetitions": manifest.repetitions,
        "arms ran in this order": ", ".join(manifest.arm_order), "model": manifest.model, "dtype": manifest.dtype,
        "block size": f"{manifest.block_size} tokens",
        "KV of a token": f"{figure_number(float(manifest.kv_bytes_per_token))} B",
        "near-tie": f"gap of at most {manifest.tie_gap_nats:g} nats",
        "send lag limit": f"{manifest.send_lag_limit_s:g} s",
    }
    blocks: list[Block] = [_facts("The run", facts)]
    for title, values in (
        ("Versions", manifest.versions), ("Host", manifest.host), ("Evidence", manifest.evidence),
        ("Seconds spent", manifest.durations_s),
    ):
        if values:
            blocks.append(_facts(title, dict(sorted(values.items()))))
    blocks.append(_limits(analysis))
    blocks += [Verbatim(name, text) for name, text in sorted(manifest.specs.items())]
    if manifest.plan:
        blocks.append(Verbatim("Plan", manifest.plan))
    return Section("Appendix", tuple(blocks))


def _facts(title: str, values: dict[str, Any]) -> Table:
    rows = tuple(row(name, _told(value)) for name, value in values.items())
    return Table(title, ("what", "value"), rows, numeric=False)


def _told(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, dict):
        return "\n".join(f"{name}: {_told(one)}" for name, one in sorted(value.items(), key=lambda pair: str(pair[0])))
    if isinstance(value, list | tuple):
        return "\n".join(_told(one) for one in value)
    return "no value" if value is None else str(value)


def _limits(analysis: Analysis) -> Block:
    limits = analysis.run.manifest.limits
    if not limits:
        return Text("No limits were set, so there is no goodput.")
    rows = tuple(
        row(name, f"{one.ttft_s:.3g} s", f"{one.tpot_s:.3g} s", one.derivation) for name, one in sorted(limits.items())
    )
    return Table("Limits of good service", ("class", "TTFT", "TPOT", "how they came about"), rows, numeric=False)
