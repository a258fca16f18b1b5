"""A reset is proven by a canary, or it is not a reset."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from testbed.errors import RunError
from testbed.experiment.live import Live
from testbed.experiment.reset import reset_with_proof
from testbed.experiment.watch import Watch
from testbed.journal.events import KvLookup, TierReset
from testbed.journal.reader import load_journal
from testbed.journal.writer import JournalWriter

CANARY = (1, 2, 3, 4, 5)


@dataclass
class FakeServer:
    """An engine with a probe and a two-level tier, each of which can refuse to forget."""

    journal: JournalWriter
    engine_holds: bool = False
    memory: bool = False
    backing: bool = False
    forgets_backing: bool = True
    stores: bool = True
    in_flight: int = 0
    url: str = "fake"
    asked: list[str] = field(default_factory=list)

    def complete(
        self, prompt: Sequence[int], max_tokens: int, request_id: str, extra: Mapping[str, Any] | None = None
    ) -> Any:
        self.asked.append(request_id)
        local = 4 if self.engine_holds else 0
        promised = 4 if not local and (self.memory or self.backing) else 0
        self.journal.write(
            KvLookup,
            request_id=request_id,
            attempt=1,
            prompt_tokens=5,
            local_tokens=local,
            promised_tokens=promised,
            tier_tokens=promised,
            is_async=True,
            first_asked_at_ns=1,
            answered_at_ns=2,
        )
        self.engine_holds = True
        if self.stores:
            self.memory = self.backing = True
        return {"usage": {"prompt_tokens_details": {"cached_tokens": local}}}

    def reset_prefix_cache(self) -> bool:
        self.engine_holds = False
        return True

    def saves_in_flight(self) -> int:
        return self.in_flight

    def objects_in_memory(self) -> int:
        return int(self.memory)

    def clear_memory(self) -> None:
        self.memory = False

    def remove(self) -> int:
        if self.forgets_backing:
            self.backing = False
        return int(self.forgets_backing)


def live(folder: Path, *, tier: bool = True, **changes: Any) -> Live:
    journal = JournalWriter(folder / "events", "driver")
    journal.enter("tier", 0)
    server: Any = FakeServer(journal, **changes)
    parts: Any = {"tier": server, "keys": server} if tier else {}
    return Live(Any, server, folder / "log", journal, folder, **parts)  # type: ignore[arg-type]


def reset(folder: Path, found: Live) -> TierReset:
    reset_with_proof(found, Watch(folder / "events", "tier", 0), CANARY, "R.tier.0.canary")
    return load_journal(folder).select(TierReset)[0]


def test_a_canary_that_hit_before_and_misses_after_is_the_proof(tmp_path: Path) -> None:
    event = reset(tmp_path, live(tmp_path))
    assert event.proven
    assert (event.before_promised_tokens, event.after_promised_tokens, event.after_local_tokens) == (4, 0, 0)


def with_another(folder: Path, **changes: Any) -> Live:
    """A second engine on the same tier, which can refuse to forget."""
    first = live(folder)
    server: Any = first.engine
    other: Any = Beside(server, **changes)
    return replace(first, others=(other,))


@dataclass
class Beside:
    """Asks the same tier as the first engine, and has a cache of its own."""

    first: FakeServer
    forgets: bool = True
    holds: bool = False
    url: str = "beside"

    def complete(
        self, prompt: Sequence[int], max_tokens: int, request_id: str, extra: Mapping[str, Any] | None = None
    ) -> Any:
        self.first.engine_holds = self.holds
        return self.first.complete(prompt, max_tokens, request_id, extra)

    def reset_prefix_cache(self) -> bool:
        self.holds = self.holds and not self.forgets
        return True


def test_every_engine_of_several_is_asked_and_none_for_what_another_has_just_stored(tmp_path: Path) -> None:
    found = with_another(tmp_path)
    event = reset(tmp_path, found)
    assert (event.proven, event.after_promised_tokens, event.after_local_tokens) == (True, 0, 0)
    server: Any = found.engine
    assert server.asked[-2:] == ["R.tier.0.canary-miss", "R.tier.0.canary-miss-1"]


def test_one_engine_that_remembers_is_enough_to_end_the_run(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="4 in the engine"):
        reset(tmp_path, with_another(tmp_path, forgets=False, holds=True))


def test_without_a_tier_the_engines_own_cache_is_proven_empty(tmp_path: Path) -> None:
    event = reset(tmp_path, live(tmp_path, tier=False))
    assert event.proven
    assert (event.before_local_tokens, event.after_local_tokens, event.after_promised_tokens) == (4, 0, None)


@pytest.mark.parametrize(
    ("changes", "said"),
    [({"forgets_backing": False}, "4 promised by the tier"), ({"stores": False}, "had 0 tokens cached before")],
)
def test_what_is_not_proven_ends_the_run(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(RunError, match=said):
        reset(tmp_path, live(tmp_path, **changes))
    [event] = load_journal(tmp_path).select(TierReset)
    assert not event.proven


def test_a_save_still_in_flight_is_no_proof(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("testbed.experiment.live._SAVE_LIMIT_S", 0.2)
    with pytest.raises(RunError, match="saves in flight"):
        reset(tmp_path, live(tmp_path, in_flight=3))
