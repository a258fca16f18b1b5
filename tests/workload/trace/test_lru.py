"""One pass tells what an LRU cache of any size would find: by hand, and against the cache itself."""

from collections import OrderedDict

from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.workload.trace.lru import depths

# Most recent first, after each: [2 1 0], [3 0 2 1], [2 1 0 3], [4 2 1 0 3], [1 0 4 2 3].
REQUESTS = [(0, 1, 2), (0, 3), (0, 1, 2), (4,), (0, 1)]


def test_leading_blocks_are_found_by_caches_that_reach_as_deep() -> None:
    found = depths(REQUESTS)
    # at the start of request 2: 0 lies 3 deep; of 3: 0, 1, 2 lie 2, 4, 3 deep, and block 2 counts only behind block 1;
    # of 5: 0 and 1 lie 4 and 3 deep
    assert [found.hit_blocks(blocks) for blocks in (0, 1, 2, 3, 4, 5)] == [0, 0, 1, 2, 6, 6]
    assert found.hit_blocks(None) == 6


def test_the_first_blocks_of_requests_are_counted_apart() -> None:
    # block 0 is found by requests 2, 3 and 5, which need 3, 2 and 4 blocks
    assert [depths(REQUESTS).first_block_hits(blocks) for blocks in (1, 2, 3, 4, None)] == [0, 1, 2, 3, 3]


def test_what_was_inserted_and_is_gone_was_evicted() -> None:
    found = depths(REQUESTS)
    # 11 touches; with 3 blocks those of 0 by requests 2 and 3 are hits (3 and 2 deep), the other 9 insert: 9 - 3
    assert (found.evictions(3), found.final_blocks(3)) == (6, 3)
    # an endless cache inserts the five that there are
    assert (found.evictions(None), found.final_blocks(None)) == (0, 5)


def simulated(requests: list[list[int]], capacity: int) -> tuple[int, int]:
    """Hits and evictions of the cache itself."""
    cache: OrderedDict[int, None] = OrderedDict()
    hits = evictions = 0
    for ids in requests:
        for block in ids:
            if block not in cache:
                break
            hits += 1
        for block in ids:
            cache[block] = None
            cache.move_to_end(block)
            if len(cache) > capacity:
                cache.popitem(last=False)
                evictions += 1
    return hits, evictions


@settings(max_examples=50, deadline=None)
@given(
    requests=st.lists(st.lists(st.integers(0, 12), max_size=8), max_size=15), capacity=st.integers(1, 14)
)
def test_depths_say_what_the_cache_itself_does(requests: list[list[int]], capacity: int) -> None:
    found = depths(requests)
    assert (found.hit_blocks(capacity), found.evictions(capacity)) == simulated(requests, capacity)
    assert found.hit_blocks(None) == simulated(requests, 1000)[0]
