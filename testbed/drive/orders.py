"""What is said between a drive and its worker processes: one line of JSON each, on stdin and stdout."""

import msgspec

from testbed.drive.pace import Standing, Tally


class Order(msgspec.Struct, frozen=True, tag="order"):
    """What a worker is to do, told first. The key of the API comes this way, for others can read a command line."""

    items: str
    bodies: str
    count: int
    base_url: str
    model: str
    address: tuple[str, int]
    path: str
    journal_folder: str
    journal_name: str
    arm: str
    repetition: int
    max_concurrency: int | None = None
    keep_in_flight_on_stop: bool = False
    api_key: str | None = None
    ca_file: str | None = None

    def __repr__(self) -> str:
        return f"Order({self.journal_name}: {self.count} requests to {self.base_url})"


class Go(msgspec.Struct, frozen=True, tag="go"):
    """The zero of the schedule, on the monotonic clock of the worker's host."""

    zero_at_ns: int


class Stop(msgspec.Struct, frozen=True, tag="stop"):
    """Send nothing more; with `drop`, end what is in flight too."""

    drop: bool


class IsReady(msgspec.Struct, frozen=True, tag="ready"):
    """A worker has read its order, and waits for the zero."""


class Trouble(msgspec.Struct, frozen=True, tag="trouble"):
    """A worker can't go on; for the user."""

    message: str
    where: str | None


ToWorker = Order | Go | Stop
FromWorker = IsReady | Standing | Tally | Trouble
