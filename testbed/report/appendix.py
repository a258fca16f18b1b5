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
        "block size": _with_unit(manifest.block_size, "tokens"),
        "KV of a token": _with_unit(manifest.kv_bytes_per_token, "B"),
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


def _with_unit(value: int | None, unit: str) -> str | None:
    return None if value is None else f"{figure_number(float(value))} {unit}"


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
    # Few limit the whole answer, so its column stands only where one does.
    whole = any(one.e2e_s is not None for one in limits.values())
    rows = tuple(
        row(name, _limit(one.ttft_s), _limit(one.tpot_s), *([_limit(one.e2e_s)] if whole else []), one.derivation)
        for name, one in sorted(limits.items())
    )
    head = ("class", "TTFT", "TPOT", *(["whole answer"] if whole else []), "how they came about")
    return Table("Limits of good service", head, rows, numeric=False)


def _limit(limit_s: float | None) -> str:
    return "none" if limit_s is None else f"{limit_s:.3g} s"
