"""Read the files that traces lie in, and hand their content to the reader of their format."""

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from testbed.errors import SpecError
from testbed.journal.events import ArmBegan, RequestPlanned, RequestSent
from testbed.journal.reader import Journal
from testbed.journal.run import open_run
from testbed.spec.trace import TimeUnit, Trace, TraceFormat
from testbed.workload.trace.azure import COLUMNS, read_azure
from testbed.workload.trace.journal_replay import replay
from testbed.workload.trace.mooncake import read_mooncake, unit_warning
from testbed.workload.trace.records import Reading, TraceRecords, TraceRow, decode_text, digest, settle
from testbed.workload.trace.sharegpt import CHARACTERS_PER_TOKEN, estimated_tokens, read_sharegpt, turns_of
from testbed.workload.trace.stats import CAPACITIES_TOKENS, trace_stats
from testbed.workload.trace.tables import Told


def find_trace(name: str, *, beside: Path | None, where: str) -> Path:
    """The file or run folder that a workload means: next to its own file, else as it stands.

    Raises: SpecError if there is none.
    """
    looked = [Path(name)] if beside is None else [beside / name, Path(name)]
    for path in looked:
        if path.exists():
            return path
    tried = ", ".join(dict.fromkeys(map(str, looked)))
    raise SpecError(f'there is no trace "{name}"; looked at {tried}', where=where)


def read_trace(spec: Trace, path: Path) -> TraceRecords:
    """The requests of a trace in order of time, with all that a reader should know of them.

    Raises: SpecError with every bad row, unless `bad_rows` says skip; JournalError for a run that can't be read.
    """
    if spec.format == "journal":
        content = _journal_bytes(path)
        reading = _replayed(path, spec.arm)
    else:
        content = _content(path)
        reading = _read(decode_text(content, where=str(path)), spec, str(path))
    records = settle(reading, where=str(path), sha256=digest(content), bad_rows=spec.bad_rows)
    warning = unit_warning(records.rows, spec.time_unit) if spec.format == "mooncake" else None
    return records if warning is None else records.warned(warning)


def guess_format(path: Path) -> TraceFormat:
    """What kind of trace a path holds, by how it begins. Raises: SpecError for what is none of them."""
    if path.is_dir():
        return "journal"
    begin = _content(path)[:1000].decode("utf-8-sig", errors="replace").lstrip()
    if begin.startswith("{"):
        return "mooncake"
    if begin.startswith("["):
        return "sharegpt"
    if begin.upper().startswith(COLUMNS[0]):
        return "azure"
    raise SpecError(
        "is no trace of a known kind: it begins like none of them", where=str(path),
        hint="mooncake (JSON lines), azure (CSV), sharegpt (a JSON list), or the folder of a run",
    )


def look_at(
    path: Path, file_format: TraceFormat, unit: TimeUnit, capacities_tokens: Sequence[int] | None,
    tokenizer: Path | None,
) -> Told:
    """What a trace is like. Without `capacities_tokens`, caches of the usual sizes are told.

    Raises: SpecError with every bad row; JournalError for a run that can't be read.
    """
    spec = spec_as_recorded(path, file_format, unit)
    records = read_trace(spec, path)
    rows, notes = _rows(records, spec, tokenizer)
    # Pieces of other formats are of all lengths, so that many of them are no capacity.
    sizes = (None,) if file_format != "mooncake" else CAPACITIES_TOKENS if not capacities_tokens else (
        *capacities_tokens, None
    )
    stats = trace_stats(
        rows, block_tokens=spec.block_tokens, capacities_tokens=sizes, timed=file_format != "sharegpt"
    )
    return Told(path.name, file_format, records.sha256, stats, (*records.notes, *notes), records.warnings)


def spec_as_recorded(path: Path, file_format: TraceFormat, unit: TimeUnit = "ms") -> Trace:
    """What says that nothing is to be changed in a trace."""
    written: dict[str, object] = {"file": str(path), "format": file_format, "timeout": "1s"}
    if file_format == "mooncake":
        written |= {"time_unit": unit}
    if file_format == "sharegpt":
        written |= {"arrival": {"process": "constant", "rate": 1}}
    return Trace.model_validate(written)


def _rows(records: TraceRecords, spec: Trace, tokenizer: Path | None) -> tuple[tuple[TraceRow, ...], tuple[str, ...]]:
    """The requests of a trace; the times of those of conversations mean nothing."""
    if not records.conversations:
        return records.rows, ()
    count = estimated_tokens if tokenizer is None else token_counter(tokenizer)
    turns = turns_of(records.conversations, spec, name="look", seed=0, count=count, decode_s_per_token=0.0)
    if not turns.rows:
        raise SpecError("no question has an answer", where=records.where)
    estimate = f"tokens are estimated, {CHARACTERS_PER_TOKEN} characters each; --tokenizer FOLDER counts them"
    left_out = f"{turns.without_answer} questions have no answer and are left out"
    notes = [estimate] * (tokenizer is None) + [left_out] * (turns.without_answer > 0)
    return turns.rows, tuple(notes)


def token_counter(folder: Path) -> Callable[[str], int]:
    """Counts the tokens of texts with the tokenizer of a model on this disk, which is loaded when first asked.

    Raises: SpecError, when asked, if the folder has no tokenizer.json.
    """

    @cache
    def loaded() -> Any:
        from tokenizers import Tokenizer

        path = folder / "tokenizer.json"
        if not path.is_file():
            raise SpecError("there is no such file", where=str(path), hint="give the folder of a model")
        return Tokenizer.from_file(str(path))

    return lambda text: len(loaded().encode(text, add_special_tokens=False).ids)


def _read(text: str, spec: Trace, where: str) -> Reading:
    if spec.format == "mooncake":
        return read_mooncake(text, where=where, unit=spec.time_unit, block_tokens=spec.block_tokens)
    return read_azure(text, where=where) if spec.format == "azure" else read_sharegpt(text, where=where)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as problem:
        raise SpecError(f"can't be read: {problem.strerror}", where=str(path)) from problem


def _journal_bytes(path: Path) -> bytes:
    """All shards of a run, in the order of their names."""
    return b"".join(_content(shard) for shard in sorted((path / "events").glob("*.jsonl")))


def _replayed(path: Path, arm: str | None) -> Reading:
    """The first repetition of an arm. All arms of a run have one schedule, so without a name the first one serves.

    Raises: SpecError if there is no such arm.
    """
    journal = open_run(path).journal
    planned = journal.select(RequestPlanned)
    arms = tuple(dict.fromkeys(one.arm for one in planned))
    if not arms or (arm is not None and arm not in arms):
        known = f"its arms are {', '.join(arms)}" if arms else "no request was planned in it"
        raise SpecError(f"has no arm {'to replay' if arm is None else arm}; {known}", where=str(path))
    chosen = arms[0] if arm is None else arm
    repetition = min(one.repetition for one in planned if one.arm == chosen)
    of_arm = [one for one in planned if one.arm == chosen and one.repetition == repetition]
    return replay(of_arm, _due_s(journal, chosen, repetition))


def _due_s(journal: Journal, arm: str, repetition: int) -> dict[str, float]:
    """When each request that was sent had been due, from the zero of the arm."""
    began = journal.select(ArmBegan, arm, repetition)
    if not began:
        return {}
    zero_ns = began[0].zero_at_ns
    sent = journal.select(RequestSent, arm, repetition)
    return {one.request_id: (one.scheduled_at_ns - zero_ns) / 1e9 for one in sent}
