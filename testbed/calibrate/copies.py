"""How fast this machine copies from shared memory, the path of a tier's hit; and `calibrate_paths`, all paths together.

A hit is copied from a POSIX shared memory pool into the blocks of an engine. Measured are plain copies, and copies into
scattered blocks as an engine has them, by one thread and by one per core.
"""

import mmap
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from testbed import clock
from testbed.calibrate.loopback import LOOPBACK_TCP, loopback_ways
from testbed.calibrate.rates import Way, path_rate
from testbed.errors import DeployError, RunError
from testbed.journal.manifest import PathRate

SHARED_MEMORY_COPY = "shared_memory_copy"
TRIES = 12
_MIB = 1 << 20
_SIZES_MIB = (4, 16, 64, 128)
_SHARED_FOLDER = "/dev/shm"
# As a small model has them: K and V of a block are 128 tokens x 4 heads x 64 x 4 bytes = 128 KiB each.
_LAYERS, _BLOCK_BYTES, _SPARE_BLOCKS = 8, 128 * 4 * 64 * 4, 2

Bytes = NDArray[np.uint8]
Part = Callable[[], None]


def calibrate_paths(talk: Callable[[str], None]) -> tuple[PathRate, ...]:
    """Best rate of each path that KV bytes take on one machine: a copy from shared memory, and TCP on loopback.

    Takes some ten seconds. Raises: DeployError if there is too little shared memory.
    """
    rates = []
    for path, measure in ((SHARED_MEMORY_COPY, copy_ways), (LOOPBACK_TCP, loopback_ways)):
        talk(f"measuring path {path}")
        ways = measure()
        rates.append(path_rate(path, ways))
        talk(f"path {path}: {max(way.best_bytes_per_s for way in ways):.3g} bytes/s, {rates[-1].source}")
    return tuple(rates)


def copy_ways(sizes_mib: Sequence[int] = _SIZES_MIB, tries: int = TRIES) -> list[Way]:
    """Time plain and block-wise copies of each size, by one thread and by one per core.

    Raises: DeployError if shared memory can't hold the smallest size.
    """
    free = shutil.disk_usage(_SHARED_FOLDER).free
    fitting = [size for size in sizes_mib if 2 * size * _MIB <= free]
    if not fitting:
        raise DeployError(f"shared memory has {free / _MIB:.0f} MiB free, too little to measure", where=_SHARED_FOLDER)
    ways: list[Way] = []
    cores = len(os.sched_getaffinity(0))
    with _shared_pool(max(fitting) * _MIB) as pool, ThreadPoolExecutor(cores) as executor:
        private = np.ones(max(fitting) * _MIB, dtype=np.uint8)
        for size in fitting:
            for threads in sorted({1, cores}):
                source = pool[: size * _MIB]
                ways.append(_plain(source, private[: size * _MIB], threads, executor, tries))
                ways.append(_blockwise(source, threads, executor, tries))
    return ways


@contextmanager
def _shared_pool(size_bytes: int) -> Iterator[Bytes]:
    """A mapping of shared memory that has no name, so that nothing can be left of it."""
    with tempfile.TemporaryFile(dir=_SHARED_FOLDER) as file:
        os.posix_fallocate(file.fileno(), 0, size_bytes)
        pool: Bytes = np.frombuffer(mmap.mmap(file.fileno(), size_bytes), dtype=np.uint8)
        pool[:] = np.random.default_rng(3).integers(0, 256, size_bytes, dtype=np.uint8)
        yield pool


def _plain(source: Bytes, target: Bytes, threads: int, executor: ThreadPoolExecutor, tries: int) -> Way:
    """One range into another; each thread has a part of it."""
    pieces = [slice(part * len(source) // threads, (part + 1) * len(source) // threads) for part in range(threads)]
    parts = [_copy(target[piece], source[piece]) for piece in pieces]
    target[:] = 0
    tries_s = _time(parts, executor, tries)
    if not np.array_equal(source, target):
        raise RunError("a plain copy that was timed has not copied")
    return Way(_label("plain", len(source), threads), len(source), tries_s)


def _copy(target: Bytes, source: Bytes) -> Part:
    return lambda: np.copyto(target, source)


def _blockwise(source: Bytes, threads: int, executor: ThreadPoolExecutor, tries: int) -> Way:
    """Each layer's K and V into blocks that lie apart and out of order; each thread has some of the layers."""
    count = len(source) // (_LAYERS * 2 * _BLOCK_BYTES)
    sources = source[: count * _LAYERS * 2 * _BLOCK_BYTES].reshape(_LAYERS, 2, count, _BLOCK_BYTES)
    layers = [np.zeros((2, count * _SPARE_BLOCKS, _BLOCK_BYTES), dtype=np.uint8) for _ in range(_LAYERS)]
    table = np.random.default_rng(5).permutation(count * _SPARE_BLOCKS)[:count]
    parts = [_scatter(layers[part::threads], sources[part::threads], table) for part in range(threads)]
    tries_s = _time(parts, executor, tries)
    if not all(np.array_equal(layer[:, table], content) for layer, content in zip(layers, sources, strict=True)):
        raise RunError("a block-wise copy that was timed has not copied")
    return Way(_label("block-wise", sources.nbytes, threads), sources.nbytes, tries_s)


def _scatter(layers: Sequence[Bytes], sources: Bytes, table: NDArray[np.int64]) -> Part:
    def run() -> None:
        for layer, content in zip(layers, sources, strict=True):
            for half in (0, 1):
                for position, block in enumerate(table):
                    layer[half, block] = content[half, position]
    return run


def _time(parts: Sequence[Part], executor: ThreadPoolExecutor, tries: int) -> tuple[float, ...]:
    """Seconds of each try; one before them touches all pages."""
    tries_s = []
    for _ in range(tries + 1):
        began_s = clock.now_s()
        if len(parts) == 1:
            parts[0]()
        else:
            for done in [executor.submit(part) for part in parts]:
                done.result()
        tries_s.append(clock.now_s() - began_s)
    return tuple(tries_s[1:])


def _label(kind: str, moved_bytes: int, threads: int) -> str:
    return f"{kind} copy of {moved_bytes / _MIB:.0f} MiB by {threads} thread{'s' if threads > 1 else ''}"
