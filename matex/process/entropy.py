"""The system's randomness for the script: equal on all ranks, different in each run.

Unseeded generators, names from ``uuid4`` and tokens are part of the script's work, and the ranks
work alike only if these are equal. A number follows from a key of the run, from the place in the
script that asks for it and from the count of its earlier requests, so ranks need not communicate,
and requests of the leader's callbacks change no other number.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import os
import random
from collections.abc import Iterator
from typing import Any

from matex.files import real
from matex.files.called_from import called_from
from matex.replacing import replace

__all__ = ["install"]

_SEED_BYTES = 32


def install(key: str) -> None:
    """Replace the entropy source of Python and NumPy for the rest of the process. Local.

    A process that the script forks has the system's own, for it is to differ from others.

    Args:
        key: secret text, equal on all ranks.
    """
    original, process = os.urandom, os.getpid()
    asked: dict[str, Iterator[int]] = {}

    @functools.wraps(original)
    def urandom(size: int, /) -> bytes:
        if real.is_direct() or os.getpid() != process:
            return original(size)
        place = called_from()
        number = next(asked.setdefault(place, itertools.count()))
        return hashlib.shake_256(f"{key} {place}{number}".encode()).digest(size)

    replace(os, "urandom", urandom)
    replace(random, "_urandom", urandom)  # of secrets and NumPy, too
    _seed_alike()


def _seed_alike() -> None:
    """Reseed Python's unseeded generators from the replaced ``os.urandom``."""
    original: Any = random.Random.seed

    @functools.wraps(original)
    def seed(self: random.Random, a: Any = None, version: int = 2) -> None:
        if a is None:
            a = int.from_bytes(os.urandom(_SEED_BYTES), "little")
        original(self, a, version)

    replace(random.Random, "seed", seed)
    replace(random, "seed", vars(random)["_inst"].seed)
