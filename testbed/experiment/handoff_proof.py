"""Prove that prefill and decode are apart in more than name: KV travels, and decode computes at most one block of it.

The evidence is what the decode engines count and what their probes have journalled, never the router's word.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from testbed.clock import polls
from testbed.engines.api import EngineApi
from testbed.errors import RunError
from testbed.experiment.live import Live
from testbed.experiment.watch import Watch
from testbed.journal.legs import leg_id
from testbed.plan.site import Deployable

TRIES = 3
"""The first transfer of a pair may take so long that its load is given up."""
ANSWERS = (1, 2)
WARM_UP = len(ANSWERS) * TRIES
"""The number of a proof prompt that no proof uses."""
_WHOLE_BLOCKS = 3
_TAIL_TOKENS = 5
_SEEN_LIMIT_S = 5.0


@dataclass(frozen=True)
class Handed:
    """One request as decode saw it: tokens of its prompt by source, bytes that a load moved, and its answer."""

    prompt_tokens: int
    loaded_tokens: int
    computed_tokens: int
    load_bytes: int
    asked: int
    answered: int

    def problem(self, block_size: int) -> str | None:
        """What is wrong with it; None if it was handed over."""
        if self.answered != self.asked:
            return f"max_tokens {self.asked} gave {self.answered} tokens"
        if self.load_bytes > 0 and self.loaded_tokens > 0 and self.computed_tokens <= block_size:
            return None
        return (
            f"disaggregated in name only: of a prompt of {self.prompt_tokens} tokens decode loaded {self.loaded_tokens}"
            f" ({self.load_bytes} bytes) and computed {self.computed_tokens}; allowed is one block of {block_size}"
        )


def prove_handoff(live: Live, tokens: Sequence[int], run: str) -> tuple[Handed, ...]:
    """Ask through the router for answers of one and of two tokens; nothing where engines do both themselves.

    `tokens` are text that nobody asks otherwise. Call it while all parts journal into no arm.
    Raises: RunError where the last try, too, was not handed over.
    """
    if not live.deployable.site.topology.apart:
        return ()
    watch = Watch(live.run_folder / "events", *live.journal.place)
    return tuple(_proven(live, watch, tokens, run, asked) for asked in ANSWERS)


def _proven(live: Live, watch: Watch, tokens: Sequence[int], run: str, asked: int) -> Handed:
    block_size = live.deployable.engines[0].settings.block_size
    said = ""
    for number in range(TRIES):
        prompt = proof_prompt(live.deployable, tokens, ANSWERS.index(asked) * TRIES + number)
        handed = _ask(live, watch, prompt, f"{run}.proof.{asked}.{number}", asked)
        problem = handed.problem(block_size)
        if problem is None:
            return handed
        said = problem
    raise RunError(f"{said} ({TRIES} tries)", where=live.deployable.plan.name)


def proof_prompt(deployable: Deployable, tokens: Sequence[int], number: int) -> tuple[int, ...]:
    """A prompt of some whole units of storage and a few tokens more; each `number` begins with another token."""
    access, block_size = deployable.tier, deployable.engines[0].settings.block_size
    unit = block_size if access is None else access.chunk_tokens
    length = min(_WHOLE_BLOCKS * unit + _TAIL_TOKENS, deployable.site.max_model_len - max(ANSWERS) - 1)
    turned = (*tokens[number + 1 :], *tokens[: number + 1])
    return tuple(turned[place % len(turned)] for place in range(length))


def _ask(live: Live, watch: Watch, prompt: Sequence[int], request_id: str, asked: int) -> Handed:
    engines = _decoding(live)
    before = _by_source(engines)
    answer = live.front.complete(prompt, asked, request_id, {"ignore_eos": True})
    after = before
    for _ in polls(_SEEN_LIMIT_S, 0.1):
        after = _by_source(engines)
        if sum(after) - sum(before) >= len(prompt):
            break
    return Handed(
        len(prompt), after[0] - before[0], after[1] - before[1], _load_bytes(watch, leg_id(request_id, "decode")),
        asked, len(answer["choices"][0]["token_ids"]),
    )


def _decoding(live: Live) -> list[EngineApi]:
    parts = zip(live.deployable.engines, live.engines, strict=True)
    return [engine for part, engine in parts if part.role == "decode"]


def _by_source(engines: Sequence[EngineApi]) -> tuple[int, int, int]:
    """Prompt tokens that these engines have loaded, computed, and found in their own caches; unseen is none yet."""
    found = [engine.gauges() for engine in engines]
    names = ("loaded_tokens", "computed_tokens", "local_tokens")
    loaded, computed, local = (int(sum(one[name] for one in found if name in one)) for name in names)
    return loaded, computed, local


def _load_bytes(watch: Watch, request_id: str) -> int:
    """Bytes that the probe saw loaded for the request; 0 where it saw no load that went well."""
    for _ in polls(_SEEN_LIMIT_S, 0.1):
        watch.look()
        if request_id in watch.load_ends:
            break
    load = watch.load_ends.get(request_id)
    return load.load_bytes if load is not None and load.ok else 0
