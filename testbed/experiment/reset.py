"""Empty all caches before an arm, and prove it: a canary that hit before misses after."""

from collections.abc import Sequence
from dataclasses import dataclass

from testbed.engines.api import EngineApi
from testbed.errors import RunError
from testbed.experiment.live import Live
from testbed.experiment.watch import Watch
from testbed.journal.events import TierReset


@dataclass(frozen=True)
class Seen:
    """Tokens of one canary by source: from the engine's own cache, and promised by the tier (None without one)."""

    local_tokens: int
    promised_tokens: int | None


def reset_with_proof(live: Live, watch: Watch, canary: Sequence[int], canary_id: str) -> None:
    """Store a canary, see it hit, clear everything, see it miss on every engine; journal all three.

    Raises: RunError when the canary did not hit before, or still hits after: then what an arm measures is not its own.
    """
    live.engine.complete(canary, 1, f"{canary_id}-store")
    in_flight = live.await_saved()
    if live.tier is not None:
        live.clear_engine()
    before = _ask(live, live.engine, watch, canary, f"{canary_id}-hit")
    in_flight += live.await_saved()
    detail = live.clear()
    after = _after(live, watch, canary, f"{canary_id}-miss")
    hit = before.promised_tokens if live.tier is not None else before.local_tokens
    proven = bool(hit) and after.local_tokens == 0 and not after.promised_tokens and in_flight == 0
    live.journal.write(
        TierReset,
        canary_tokens=len(canary),
        before_local_tokens=before.local_tokens,
        before_promised_tokens=before.promised_tokens,
        after_local_tokens=after.local_tokens,
        after_promised_tokens=after.promised_tokens,
        saves_in_flight=in_flight,
        proven=proven,
        detail=detail,
    )
    if not proven:
        raise RunError(
            f"reset not proven: the canary of {len(canary)} tokens had {hit} tokens cached before, and after it"
            f" {after.local_tokens} in the engine and {after.promised_tokens} promised by the tier;"
            f" {in_flight} saves in flight",
            where=canary_id,
        )
    live.await_saved()
    live.clear()


def _after(live: Live, watch: Watch, canary: Sequence[int], request_id: str) -> Seen:
    """The worst of all engines. What one of them stores now, the tier would promise the next: it is cleared again."""
    after = _ask(live, live.engine, watch, canary, request_id)
    for number, engine in enumerate(live.others, start=1):
        live.await_saved()
        live.clear()
        other = _ask(live, engine, watch, canary, f"{request_id}-{number}")
        promised = None if after.promised_tokens is None or other.promised_tokens is None else max(
            after.promised_tokens, other.promised_tokens
        )
        after = Seen(max(after.local_tokens, other.local_tokens), promised)
    return after


def _ask(live: Live, engine: EngineApi, watch: Watch, canary: Sequence[int], request_id: str) -> Seen:
    """One canary request; with a probe its LOOKUP tells, without one the engine's own usage count."""
    answer = engine.complete(canary, 1, request_id)
    if live.tier is None:
        details = answer["usage"]["prompt_tokens_details"]
        return Seen(int(details["cached_tokens"]), None)
    watch.look()
    lookup = watch.lookups.get(request_id)
    if lookup is None:
        raise RunError("the probe journalled no lookup for the canary", where=request_id)
    return Seen(lookup.local_tokens, lookup.promised_tokens)
