"""One planned request: what is sent, and when it is due."""

import hashlib
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class PlannedRequest:
    """A request of the schedule. `scheduled_at_s` counts from the zero of the arm's window.

    `measured` is False for fill and warm-up. `document`, `session` and `turn` are None where they mean nothing.
    With `after`, the index of an earlier request, it is due at the later of its own time and `think_s` after the end of
    that one. The user leaves once `leaves_after_tokens` tokens have come. `hit_tokens` is the longest prefix that it
    shares with requests planned before it, as an endless cache would find it; None where nothing is known.
    Requests with different `cache_salt` share no KV; `tenant` is who asks.
    """

    index: int
    traffic_class: str
    scheduled_at_s: float
    prompt: tuple[int, ...]
    max_tokens: int
    stop: Literal["forced", "natural"]
    timeout_s: float
    measured: bool = True
    document: int | None = None
    session: int | None = None
    turn: int | None = None
    after: int | None = None
    think_s: float = 0.0
    tenant: str | None = None
    cache_salt: str | None = None
    priority: int = 0
    leaves_after_tokens: int | None = None
    hit_tokens: int | None = None

    @property
    def prompt_key(self) -> str:
        """A name for this prompt and answer length, equal for equal ones: the key of its golden answer."""
        text = ",".join(map(str, self.prompt)) + f"|{self.max_tokens}|{self.stop}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]
