"""Verbs that end in each of the ways that a verb can end; run as a program, it is their command line."""

import signal
import sys

from testbed.cli.main import Verb, run
from testbed.errors import DeployError, RunError, SpecError


def good(name: str = "nobody") -> None:
    """Greet and end."""
    print(f"hello {name}")


def failed_check() -> int:
    """End with a verdict."""
    return 1


def wrong_file() -> None:
    """Refuse a file."""
    raise SpecError("tier.kind is missing", where="t.yaml:3", hint="add it")


def small_machine() -> None:
    """Refuse the machine."""
    raise DeployError("port 80 is busy")


def broken_run() -> None:
    """Break in flight."""
    raise RunError("the engine ended")


def bug() -> None:
    """Do what no verb should."""
    raise ZeroDivisionError("our own")


def wait() -> None:
    """Say when it waits, wait for a signal, and say when it has cleaned up."""
    try:
        print("waiting", flush=True)
        signal.pause()
    finally:
        print("cleaned up", flush=True)


def talk() -> None:
    """Print more than any pipe holds."""
    for _ in range(100_000):
        print("a line of output")


VERBS = (
    Verb("wait", "deployment", __name__),
    Verb("talk", "deployment", __name__),
    Verb("good", "experiment", __name__),
    Verb("failed-check", "result", __name__),
    Verb("wrong-file", "result", __name__),
    Verb("small-machine", "result", __name__),
    Verb("broken-run", "result", __name__),
    Verb("bug", "theory", __name__),
)

if __name__ == "__main__":
    # A shell that runs tests in the background lets its children ignore SIGINT.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(run(VERBS, sys.argv[1:]))
