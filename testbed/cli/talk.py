"""How the verbs speak: data on stdout, talk on stderr with the seconds since the command began."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from testbed.clock import now_s

_BEGAN_S = now_s()


def talk(text: str) -> None:
    """One line of progress on stderr."""
    print(f"[{now_s() - _BEGAN_S:6.1f} s] {text}", file=sys.stderr, flush=True)


class Stop:
    """Whether the user has asked to end."""

    def __init__(self) -> None:
        self.asked = False

    def __call__(self) -> bool:
        return self.asked


@contextmanager
def stopping() -> Iterator[Stop]:
    """Within it the first Ctrl-C asks to end: what is in flight is cancelled and kept; the second one breaks off."""
    stop = Stop()

    def asked(signum: int, frame: FrameType | None) -> None:
        if stop.asked:
            raise KeyboardInterrupt
        stop.asked = True
        talk("ending: requests in flight are cancelled, the journal is kept; Ctrl-C again breaks off at once")

    previous = signal.signal(signal.SIGINT, asked)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, previous)
