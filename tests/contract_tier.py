"""What the testbed relies on in a tier: held against a stand-in server and against real ones.

Both levels are asked by the very classes that a run uses; the engine above is the stand-in's or a real one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from testbed.deploy.ready import is_ready
from testbed.experiment.live import Live
from testbed.experiment.watch import Watch
from testbed.plan.component import Ready
from testbed.tiers.lmcache import Deleted, LmcacheServer
from testbed.tiers.redis import RedisKeys

Prompt = tuple[int, ...]


@dataclass
class TierBench:
    """A live engine with a tier of two levels below it. `prompts` are three units of storage long and five tokens."""

    live: Live
    watch: Watch
    prompts: tuple[Prompt, Prompt]
    health: str
    asked: int = 0

    @property
    def tier(self) -> LmcacheServer:
        """The memory level."""
        assert isinstance(self.live.tier, LmcacheServer)
        return self.live.tier

    @property
    def backing(self) -> RedisKeys:
        """The level behind it."""
        assert self.live.keys is not None
        return self.live.keys

    @property
    def whole(self) -> int:
        """The tokens of a prompt that fill whole units."""
        return 3 * self.tier.chunk_tokens

    def ask(self, prompt: Prompt, name: str) -> int:
        """Let the engine, which remembers nothing, answer a prompt; the tokens that the tier promised for it."""
        self.asked += 1
        request_id = f"contract.tier.0.{name}-{self.asked}"
        self.live.clear_engine()
        self.live.engine.complete(prompt, 1, request_id)
        assert self.live.await_saved() == 0
        self.watch.look()
        return self.watch.lookups[request_id].promised_tokens

    def copies(self) -> tuple[int, int]:
        """How many objects each level holds."""
        return self.tier.objects_in_memory(), self.backing.count()


def grown(before: Mapping[str, float], after: Mapping[str, float], name: str) -> float:
    """By how much a counter has grown; one that is not shown was never counted up."""
    if name not in after:
        return 0.0
    return after[name] - before[name] if name in before else after[name]


def it_says_when_it_can_take_objects(bench: TierBench) -> None:
    """By the address that a deployment waits for."""
    assert is_ready(Ready(limit_s=5.0, url=bench.health), limit_s=5.0)


def a_saved_prompt_is_counted_and_promised(bench: TierBench) -> None:
    """Its whole units, once nothing is in flight any more; and the hit is counted where it was."""
    prompt, _ = bench.prompts
    bench.live.clear()
    assert bench.copies() == (0, 0)
    assert bench.ask(prompt, "store") == 0
    assert bench.copies() == (3, 3)
    assert bench.tier.saves_in_flight() == 0
    before = bench.tier.counters()
    assert bench.ask(prompt, "hit") == bench.whole
    after = bench.tier.counters()
    assert grown(before, after, "lookup_tokens") >= bench.whole
    assert grown(before, after, "hit_memory_tokens") == bench.whole
    assert grown(before, after, "hit_backing_tokens") == 0


def what_memory_has_lost_comes_from_the_backing(bench: TierBench) -> None:
    """Clearing the memory leaves the other level as it is."""
    prompt, _ = bench.prompts
    bench.live.clear()
    bench.ask(prompt, "store")
    bench.tier.clear_memory()
    assert bench.copies() == (0, 3)
    before = bench.tier.counters()
    assert bench.ask(prompt, "hit") == bench.whole
    assert grown(before, bench.tier.counters(), "hit_backing_tokens") == bench.whole


def one_prompt_is_deleted_from_both_levels_and_no_other(bench: TierBench) -> None:
    """The answer counts the copies that memory held, and of the backing those that were asked for, there or not."""
    first, second = bench.prompts
    bench.live.clear()
    bench.ask(first, "store")
    bench.ask(second, "store")
    assert bench.tier.delete_prompt(first) == Deleted(deleted=6, skipped=0)
    assert bench.copies() == (3, 3)
    # three objects once more: none in memory now
    assert bench.tier.delete_prompt(first) == Deleted(deleted=3, skipped=0)
    assert bench.ask(second, "kept") == bench.whole
    assert bench.ask(first, "gone") == 0


def a_clear_leaves_nothing_in_either_level(bench: TierBench) -> None:
    """And it says how much there was."""
    prompt, _ = bench.prompts
    bench.live.clear()
    bench.ask(prompt, "store")
    said = bench.live.clear()
    assert "3 objects in the tier's memory cleared; 3 keys removed from the backing" in said
    assert bench.copies() == (0, 0)
    assert bench.ask(prompt, "miss") == 0


CLAIMS: tuple[Callable[[TierBench], None], ...] = (
    it_says_when_it_can_take_objects,
    a_saved_prompt_is_counted_and_promised,
    what_memory_has_lost_comes_from_the_backing,
    one_prompt_is_deleted_from_both_levels_and_no_other,
    a_clear_leaves_nothing_in_either_level,
)
