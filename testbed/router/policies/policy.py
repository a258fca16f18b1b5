"""What a policy is asked, what it sees of the engines, and what it answers. Nothing here reads a clock or a socket."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

_TEXT_BYTES_PER_TOKEN = 4


@dataclass(frozen=True)
class Ask:
    """A request: the raw JSON of its prompt or messages, empty where no policy needs it."""

    prompt: bytes = b""

    @property
    def tokens(self) -> int:
        """Prompt tokens: counted where the prompt is a list of ids, else estimated from the length of the text."""
        if self.prompt[:1] == b"[" and self.prompt[1:2] not in (b"{", b'"', b"["):
            return self.prompt.count(b",") + 1
        return -(-len(self.prompt) // _TEXT_BYTES_PER_TOKEN)


@dataclass(frozen=True)
class Load:
    """One engine as a policy sees it. `waiting_tokens` are prompt tokens that it has yet to compute, as predicted."""

    name: str
    in_flight: int
    waiting_tokens: int = 0


@dataclass(frozen=True)
class Choice:
    """The engine, and what was compared: the smallest score wins. `compute_tokens` are what it will have to compute."""

    engine: str
    scores: Mapping[str, float] = field(default_factory=dict)
    compute_tokens: int = 0


class Policy(Protocol):
    """Chooses one of the engines that it is shown, of which there is at least one."""

    name: str
    needs_prompt: bool

    def choose(self, ask: Ask, loads: Sequence[Load]) -> Choice:
        """One of `loads`. It may remember what it chose."""
