"""`python -m bench.load.drive_once URL REQUESTS RATE TOKENS FOLDER WORKERS`: one drive, its journal and its figures.

Like the tools beside it, it works out its own figures at the end, and that is part of what it costs.
"""

import sys
from pathlib import Path

import numpy as np

from bench.load.tool import MODEL, PROMPT_TOKENS
from bench.load.tools.ours import Figures, write_figures
from testbed.drive.endpoint import Endpoint
from testbed.drive.options import DriveOptions
from testbed.drive.schedule import drive
from testbed.experiment.calibrating import steady_load
from testbed.journal.events import RequestEnded
from testbed.journal.reader import load_journal
from testbed.journal.writer import JournalWriter


def _worked_out(folder: Path) -> Figures:
    ended = [one for one in load_journal(folder).select(RequestEnded) if one.outcome == "ok"]
    ttft_s = [(one.chunk_at_ns[0] - one.sent_at_ns) / 1e9 for one in ended if one.sent_at_ns is not None]
    gaps_s = np.concatenate([np.diff(one.chunk_at_ns) for one in ended]) / 1e9
    return Figures(
        ttft_p50_s=float(np.quantile(ttft_s, 0.5)), ttft_p99_s=float(np.quantile(ttft_s, 0.99)),
        itl_p50_s=float(np.quantile(gaps_s, 0.5)), itl_p99_s=float(np.quantile(gaps_s, 0.99)), ok=len(ended),
    )


def main(arguments: list[str]) -> None:
    """Drive, and write down what came of it."""
    url, requests, rate_rps, tokens, folder, workers = arguments
    place = Path(folder)
    load = steady_load(
        float(rate_rps), int(requests) / float(rate_rps), prompt_tokens=PROMPT_TOKENS, max_tokens=int(tokens)
    )
    journal = JournalWriter(place / "events", "driver")
    drive(
        load, Endpoint(url, MODEL), journal, request_id=lambda one: f"bench.{one.index}",
        options=DriveOptions(workers=int(workers)),
    )
    journal.close()
    write_figures(place, _worked_out(place))


if __name__ == "__main__":
    main(sys.argv[1:])
