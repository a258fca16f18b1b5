"""A process that supervises one component until it is killed, as a Ray actor would.

    python hold.py ORDER_FILE
"""

import pickle
import signal
import sys
from pathlib import Path

from testbed.deploy.supervisor import Supervisor


def stay() -> None:
    """Nothing to give back when a lease runs out."""


if __name__ == "__main__":
    Supervisor(pickle.loads(Path(sys.argv[1]).read_bytes()), stay).start()
    signal.pause()
