"""Randomness by name: the same key gives the same numbers, in any process, in any order."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


def number(*key: object) -> int:
    """56 bits that depend on the whole key and on nothing else."""
    return int.from_bytes(hashlib.sha256(repr(key).encode()).digest()[:7], "big")


def generator(*key: object) -> torch.Generator:
    """A torch generator of this name, e.g. generator(seed, "cohort", 12)."""
    return torch.Generator().manual_seed(number(*key))


def numpy_generator(*key: object) -> np.random.Generator:
    """A NumPy generator of this name, for the distributions torch draws from its global generator only."""
    return np.random.Generator(np.random.PCG64(number(*key)))


@contextmanager
def lent(*key: object) -> Iterator[None]:
    """Code that can only read torch's global generator gets ours; the global one is put back as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(number(*key))
        yield
