"""How the verbs speak: data on stdout, talk on stderr with the seconds since the command began."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from testbed.clock import now_s
from testbed.experiment.stop import Stop

_BEGAN_S = now_s()


def talk(text: str) -> None:
    """One line of progress on stderr."""
    print(f"[{now_s() - _BEGAN_S:6.1f} s] {text}", file=sys.stderr, flush=True)


@contextmanager
def stopping() -> Iterator[Stop]:
    """Within it Ctrl-C ends a drive in order: what is in flight is cancelled and kept. A second one breaks off."""
    stop = Stop()

    def asked(signum: int, frame: FrameType | None) -> None:
        talk("ending; what was measured is kept" if not stop.asked else "breaking off")
        stop.ask()

    previous = signal.signal(signal.SIGINT, asked)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, previous)
