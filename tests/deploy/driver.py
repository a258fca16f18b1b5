"""A driver in a process of its own, which a test may kill: brings a plan up.

    python driver.py STATE PLAN_FILE LEASE_S keep|pause

Says what `up` says on stdout, then "up". With `keep` it lets the deployment stay and exits, as the command line does.
"""

import pickle
import signal
import sys
from pathlib import Path

from testbed.deploy.ascent import up


def main(state: str, plan_file: str, lease_s: str, then: str) -> None:
    """Bring the plan up."""
    plan = pickle.loads(Path(plan_file).read_bytes())
    deployment = up(plan, state=Path(state), talk=lambda text: print(text, flush=True), lease_s=float(lease_s))
    if then == "keep":
        deployment.keep()
    print("up", flush=True)
    if then == "pause":
        signal.pause()


if __name__ == "__main__":
    main(*sys.argv[1:])
