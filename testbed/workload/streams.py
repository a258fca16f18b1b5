"""Random streams by name: each part of a workload draws from its own, so that changing one leaves the others alone."""

import hashlib

import numpy as np


def stream(seed: int, *names: str | int) -> np.random.Generator:
    """The generator that belongs to `names` under `seed`; equal for equal ones on every machine."""
    digest = hashlib.sha256("/".join(map(str, names)).encode()).digest()
    words = tuple(int.from_bytes(digest[at : at + 4], "little") for at in range(0, 16, 4))
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(entropy=seed, spawn_key=words)))


def cell_seed(seed: int, cell: str) -> int:
    """The seed of one cell of a run, such as one rate of a sweep; another name gives other prompts and times.

    Two cells that asked the same prompts of one engine would measure its caches. Cells are equal for equal names, so
    a run can be made again from its seed.
    """
    digest = hashlib.sha256(f"{seed}/{cell}".encode()).digest()
    return int.from_bytes(digest[:8], "little")
