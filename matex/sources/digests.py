"""Digests of batches, by which ranks, and a run that goes on, compare what they read."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from matex import keras_hooks

__all__ = ["digest", "digest_of", "older_digest"]

# Values of a tensor that are looked at, evenly spread over it: a batch of pictures takes .1 ms.
_HASHED = 1 << 14
_HASHED_BEFORE = 1 << 20  # by versions whose cursors have no ``raw``, always at the same places
# A number for each byte, equal in all processes.
_BYTES = np.random.default_rng(1).integers(0, 1 << 63, 256, np.uint64)


def digest(before: int, tensors: Sequence[Any], last: bool) -> int:
    """63 bits over *before*, shapes and values of *tensors*, and *last*.

    Of large tensors evenly spread values are taken, others from one batch to the next.
    """
    return _digest(before, [(kind, _spread(before, part)) for kind, part in _parts(tensors)], last)


def digest_of(before: int, arrays: Sequence[np.ndarray]) -> int:
    """63 bits as from :func:`digest`, of arrays, without calling TensorFlow."""
    spread = [(f"{array.dtype}{array.shape}", _spread(before, array)) for array in arrays]
    return _digest(before, spread, False)


def older_digest(before: int, tensors: Sequence[Any], last: bool) -> int:
    """63 bits as from :func:`digest`, for checkpoints of before there was ``raw`` in a cursor."""
    parts = [(kind, part.reshape(-1)) for kind, part in _parts(tensors)]
    spread = [(kind, flat[:: max(1, flat.size // _HASHED_BEFORE)]) for kind, flat in parts]
    return _digest(before, spread, last)


def _parts(tensors: Sequence[Any]) -> list[tuple[str, np.ndarray]]:
    """Arrays that *tensors* consist of, each with its type and shape in words."""
    parts = itertools.chain.from_iterable(map(keras_hooks.components_of, tensors))
    return [(f"{part.dtype.name}{tuple(part.shape)}", np.asarray(part)) for part in parts]


def _spread(before: int, array: np.ndarray) -> np.ndarray:
    """Some values of *array*, at places that depend on *before*."""
    apart = max(1, array.size // _HASHED)
    return array.reshape(-1)[before % apart :: apart]


def _digest(before: int, spread: Sequence[tuple[str, np.ndarray]], last: bool) -> int:
    state = hashlib.blake2b(before.to_bytes(8, "little") + bytes([last]), digest_size=8)
    for kind, values in spread:
        state.update(kind.encode())
        state.update((_of_strings(values) if values.dtype == object else values).tobytes())
    return int.from_bytes(state.digest(), "little") >> 1


def _of_strings(values: np.ndarray) -> np.ndarray:
    """64 bits over the bytes of each string of *values*, in any order, and their number.

    Two processes write the fields of the same protocol buffer in different orders.
    """
    return np.array(
        [[len(text), _BYTES[np.frombuffer(text, np.uint8)].sum()] for text in values.ravel()],
        np.uint64,
    )
