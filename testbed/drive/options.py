"""How a drive is done: in how many processes, how many requests at once, in which words, and what a stop means."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from testbed.errors import SpecError

TextOf = Callable[[Sequence[int]], str]


@dataclass(frozen=True)
class Wording:
    """Send text instead of token ids: `text_of` makes it from the ids of a planned prompt.

    With `chat` the text is the one message of a user at /v1/chat/completions, and the server's template goes around it.
    The server's own count of the prompt, `usage_prompt_tokens`, then stands beside the intended `prompt_tokens`.
    """

    text_of: TextOf
    chat: bool = False


@dataclass(frozen=True)
class DriveOptions:
    """Options of one drive; as they stand: one process, open loop, token ids, a stop cancels what is in flight.

    `workers` processes share the schedule. With `max_concurrency` the loop is closed: no more than so many requests are
    in flight, and one that had to wait was scheduled when a place was free. `keep_in_flight_on_stop` lets a stop wait
    for what is in flight; `should_drop`, asked while it waits, ends that too.
    Raises: SpecError for a number below 1, or more workers than requests may be in flight.
    """

    workers: int = 1
    max_concurrency: int | None = None
    wording: Wording | None = None
    keep_in_flight_on_stop: bool = False
    should_drop: Callable[[], bool] | None = None

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise SpecError(f"{self.workers} workers can't drive; at least 1 is needed")
        if self.max_concurrency is not None and self.max_concurrency < self.workers:
            raise SpecError(
                f"max_concurrency is {self.max_concurrency}, with {self.workers} workers it is at least {self.workers}"
            )

    def concurrency_of(self, number: int, parts: int) -> int | None:
        """What one of so many parts has of `max_concurrency`; the first ones have the rest of the division."""
        if self.max_concurrency is None:
            return None
        return self.max_concurrency // parts + (number < self.max_concurrency % parts)


DEFAULTS = DriveOptions()
