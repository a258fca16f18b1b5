"""The engine whose first token is predicted to come first: its queue, what it must compute, what it must fetch.

A prefix that another engine was given lies in the shared tier, if there is one, and is fetched where that is faster
than to compute it. Hits alone decide nothing: an engine that has the prefix and a long queue loses.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from testbed.bounds.transfer import transfer_bound_s
from testbed.router.policies.least_loaded import LeastLoaded
from testbed.router.policies.policy import Ask, Choice, Load
from testbed.router.policies.prefixes import PIECE_BYTES, Prefixes


@dataclass(frozen=True)
class Rates:
    """One engine's prefill, and the path from the shared tier; None: nothing is fetched."""

    prefill_tokens_per_s: float
    kv_bytes_per_token: int | None = None
    fetch_bytes_per_s: float | None = None


@dataclass(frozen=True)
class Prediction:
    """Seconds to the first token on one engine, by part."""

    queue_s: float
    compute_s: float
    fetch_s: float
    compute_tokens: int

    @property
    def total_s(self) -> float:
        """All three, one after the other."""
        return self.queue_s + self.compute_s + self.fetch_s


def predict(rates: Rates, *, tokens: int, local: int, shared: int, waiting: int) -> Prediction:
    """For a prompt of `tokens`, of which the engine holds `local` and the tier `shared`, behind `waiting` tokens.

    Units: all four in tokens, `shared` counted from the start of the prompt.
    """
    queue_s = waiting / rates.prefill_tokens_per_s
    more = max(0, shared - local)
    plain = Prediction(queue_s, (tokens - local) / rates.prefill_tokens_per_s, 0.0, tokens - local)
    if rates.fetch_bytes_per_s is None or rates.kv_bytes_per_token is None or not more:
        return plain
    rest = tokens - local - more
    fetch_s = transfer_bound_s(more * rates.kv_bytes_per_token, rates.fetch_bytes_per_s)
    fetched = Prediction(queue_s, rest / rates.prefill_tokens_per_s, fetch_s, rest)
    return min(plain, fetched, key=lambda prediction: prediction.total_s)


class Cost:
    """Scores are predicted seconds to the first token."""

    name = "cost"
    needs_prompt = True

    def __init__(self, rates: Rates) -> None:
        self._rates = rates
        self._prefixes = Prefixes()
        self._equals = LeastLoaded()

    def choose(self, ask: Ask, loads: Sequence[Load]) -> Choice:
        """The engine with the smallest prediction; among equals the least loaded."""
        names, tokens = self._prefixes.names(ask.prompt), ask.tokens
        per_piece = tokens * PIECE_BYTES / len(ask.prompt) if ask.prompt else 0.0
        local = {load.name: int(self._prefixes.known(names, load.name) * per_piece) for load in loads}
        shared = int(self._prefixes.known_to_any(names) * per_piece)
        predictions = {
            load.name: predict(
                self._rates, tokens=tokens, local=local[load.name], shared=shared, waiting=load.waiting_tokens
            )
            for load in loads
        }
        best_s = min(prediction.total_s for prediction in predictions.values())
        equals = [load for load in loads if predictions[load.name].total_s == best_s]
        chosen = self._equals.choose(ask, equals).engine
        self._prefixes.learn(names, chosen)
        scores = {name: prediction.total_s for name, prediction in predictions.items()}
        return Choice(chosen, scores, predictions[chosen].compute_tokens)
