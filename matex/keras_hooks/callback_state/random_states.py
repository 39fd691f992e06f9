"""States of NumPy's and Python's random generators as plain values. Pure.

Classes are named from a fixed table, so nothing else can be made of what a file says.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

__all__ = ["is_random", "made_random", "random_state"]

_BITS: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        np.random.PCG64,
        np.random.PCG64DXSM,
        np.random.MT19937,
        np.random.Philox,
        np.random.SFC64,
    )
}
_GENERATOR, _LEGACY, _PYTHON = "Generator", "RandomState", "Random"


def is_random(value: Any) -> bool:
    """Whether *value* is a generator whose state can be told."""
    if type(value) is np.random.Generator:
        return type(value.bit_generator) in _BITS.values()
    if type(value) is np.random.RandomState:
        return value.get_state(legacy=False)["bit_generator"] in _BITS
    return type(value) is random.Random


def random_state(generator: Any) -> tuple[str, Any, Any]:
    """The kind, the state and the seeds of *generator*, which :func:`is_random`."""
    if isinstance(generator, np.random.Generator):
        bits = generator.bit_generator
        return _GENERATOR, dict(bits.state), _seeds_of(bits)
    if isinstance(generator, np.random.RandomState):
        return _LEGACY, dict(generator.get_state(legacy=False)), None
    return _PYTHON, generator.getstate(), None


def made_random(kind: str, state: Any, seeds: Any, present: Any) -> Any:
    """A generator in the *state* of :func:`random_state`: *present*, if it is one of that kind."""
    if kind == _PYTHON:
        made = present if type(present) is random.Random else random.Random()
        made.setstate(state)
        return made
    bits = _BITS[state["bit_generator"]]
    if kind == _LEGACY:
        ours = type(present) is np.random.RandomState
        if not ours or present.get_state(legacy=False)["bit_generator"] != bits.__name__:
            present = np.random.RandomState(bits())
        present.set_state(state)
        return present
    if (
        type(present) is not np.random.Generator
        or type(present.bit_generator) is not bits
        or _seeds_of(present.bit_generator) != seeds
    ):
        present = np.random.Generator(bits(_sequence(seeds)))
    present.bit_generator.state = state
    return present


def _seeds_of(bits: Any) -> Any:
    """The seeds from which other generators are spawned, and how many have been; None if none."""
    seeds = getattr(bits, "seed_seq", None)
    if type(seeds) is not np.random.SeedSequence:
        return None
    entropy = seeds.entropy
    if isinstance(entropy, np.ndarray | np.integer):
        entropy = entropy.tolist()
    elif entropy is not None and not isinstance(entropy, int):
        entropy = [int(one) for one in entropy]
    key = [int(one) for one in seeds.spawn_key]
    return [entropy, key, int(seeds.pool_size), int(seeds.n_children_spawned)]


def _sequence(seeds: Any) -> np.random.SeedSequence | None:
    if seeds is None:
        return None
    entropy, key, size, spawned = seeds
    return np.random.SeedSequence(
        entropy, spawn_key=tuple(key), pool_size=size, n_children_spawned=spawned
    )
