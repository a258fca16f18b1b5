"""What the harness needs to know of a load generator, and of one piece of work for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from testbed.missing import Missing
from testbed.stub.log import StubLog

MODEL = "stub"
PROMPT_TOKENS = 8


@dataclass(frozen=True)
class Job:
    """`requests` streamed requests at a constant `rate_rps`, each with `tokens` tokens, to the server at `url`.

    `folder` is the tool's own, empty; `tokenizer` is a local one that knows the words which the stand-in says.
    """

    url: str
    requests: int
    rate_rps: float
    tokens: int
    folder: Path
    tokenizer: Path

    @property
    def seconds(self) -> float:
        """How long the schedule is."""
        return self.requests / self.rate_rps

    def within(self, url: str, folder: Path) -> "Job":
        """The same at this server and in this folder."""
        return replace(self, url=url, folder=folder)


@dataclass(frozen=True)
class Report:
    """A tool's own figures, in seconds. `gap` says what it calls the time between tokens.

    itl: all gaps of all requests together; tpot: the mean gap of each request. `lags_s` is there where the tool tells
    its schedule on the monotonic clock: received by the server minus scheduled, of each request. `own_lag_s` is there
    where only the tool itself knows its schedule: quantiles of sent minus scheduled, in its own words.
    """

    ttft_p50_s: float | Missing
    ttft_p99_s: float | Missing
    gap_p50_s: float | Missing
    gap_p99_s: float | Missing
    gap: str = "itl"
    lags_s: Sequence[float] | None = None
    own_lag_s: Mapping[float, float] | None = None


class Tool(Protocol):
    """One load generator.

    `packages` are installed for it, none where it is in our own environment; `python` is the interpreter that it needs,
    such as python3.12; the search for its highest rate begins at `first_rps`; `open_loop` is whether it sends by a
    schedule of its own, so that a lag has a meaning.
    """

    @property
    def name(self) -> str: ...

    @property
    def packages(self) -> tuple[str, ...]: ...

    @property
    def python(self) -> str: ...

    @property
    def first_rps(self) -> float: ...

    @property
    def open_loop(self) -> bool: ...

    def command(self, python: Path, job: Job) -> list[str]:
        """The command line for `job`; `python` is that of the environment in which the tool is installed."""
        ...

    def version(self, python: Path) -> str:
        """What is installed there."""
        ...

    def report(self, job: Job, log: StubLog) -> Report:
        """Its own figures of a job that it has done; `log` has the server's stamps."""
        ...
