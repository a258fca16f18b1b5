"""One engine as the router sees it: where it is, what is on it now, and what became of the legs that it had."""

from collections import Counter
from typing import Protocol
from urllib.parse import urlsplit

from testbed.clock import now_ns
from testbed.errors import SpecError
from testbed.router.connection import Connections
from testbed.spec.routing import EngineAt, LegRole


class Waiting(Protocol):
    """A leg that an engine has yet to end."""

    sent_at_ns: int | None

    def give_up(self, reason: str, error: str) -> None:
        """End it: its engine is known not to answer."""


class Engine:
    """`legs` are on it now; `waiting_tokens` are prompt tokens that it has yet to compute, as predicted.

    `heard_at_ns` is when it last sent anything.
    """

    def __init__(self, at: EngineAt) -> None:
        self.name = at.name
        self.role: LegRole = at.role
        self.host, self.port = host_and_port(at.url)
        self.bootstrap_url = at.bootstrap_url
        self.connections = Connections(self.host, self.port)
        self.legs: set[Waiting] = set()
        self.heard_at_ns = 0
        self.waiting_tokens = 0
        self.endings: Counter[tuple[str, str]] = Counter()
        self._failed_at_ns: int | None = None

    @property
    def in_flight(self) -> int:
        """How many legs it has now."""
        return len(self.legs)

    @property
    def where(self) -> str:
        """Name and address, for messages."""
        return f"{self.name} ({self.host}:{self.port})"

    def ended(self, leg: str, reason: str, *, unanswered: bool) -> None:
        """A leg is over; `unanswered` where the engine gave no answer at all, whatever its status."""
        self.endings[leg, reason] += 1
        self._failed_at_ns = now_ns() if unanswered else self._failed_at_ns

    def failed_within(self, seconds: float) -> bool:
        """Whether it left a leg unanswered in the last `seconds`."""
        return self._failed_at_ns is not None and now_ns() - self._failed_at_ns < seconds * 1e9


def host_and_port(url: str) -> tuple[str, int]:
    """The two of http://HOST:PORT.

    Raises: SpecError for an address of another form.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as problem:
        raise SpecError(f"{url!r} is not an address: {problem}", hint="write http://HOST:PORT") from problem
    if parts.scheme != "http" or not parts.hostname or port is None or parts.path.strip("/"):
        raise SpecError(f"{url!r} is not the address of an engine", hint="write http://HOST:PORT")
    return parts.hostname, port
