"""Bring a plain engine up as a user's command would, say so, and wait to be killed.

    python -m tests.engine.hold MODEL_FOLDER STATE_FOLDER RUN_FOLDER
"""

import sys
from contextlib import closing
from pathlib import Path

from testbed.clock import sleep_s
from testbed.experiment.deployables import block_deployable
from testbed.experiment.deploying import Findings, Host, deployed
from testbed.journal.writer import JournalWriter
from tests.engine.bench import TINY, small_plan, stated_facts

NAME = "orphan-0"


def main(model: Path, state: Path, run_folder: Path) -> None:
    """Never returns by itself."""
    (run_folder / "events").mkdir(parents=True)
    facts = stated_facts(TINY, model)
    plan = small_plan(TINY, facts, [{"name": "plain"}], tier={"kind": "none"})
    with closing(JournalWriter(run_folder / "events", "driver")) as journal:
        host = Host(run_folder, journal, state, lambda text: print(text, flush=True), Findings())
        deployable = block_deployable(plan, 0, NAME, state / "sites" / NAME, facts)
        with deployed(deployable, host, facts.tokens[:50]):
            print("UP", flush=True)
            sleep_s(600)


if __name__ == "__main__":
    main(*(Path(argument) for argument in sys.argv[1:]))
