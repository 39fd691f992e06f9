"""Copies of a state: equal, apart, and in memory that is used again once nobody reads it."""

from __future__ import annotations

import numpy as np
import pytest

from matex.checkpointing import buffer_pool
from matex.checkpointing.buffer_pool import BufferPool


class Owner:
    """Something that holds copies."""


def state(value: float) -> dict[str, np.ndarray]:
    return {
        "kernel": np.full((5, 3), value, np.float32),
        "count": np.array(int(value), np.int64),
        "none": np.empty((0, 7), np.float64),
        "flags": np.full(3, bool(value)),
    }


def test_copies_are_equal_and_apart() -> None:
    given = state(3)
    made, _ = BufferPool().copy(given)
    for name, array in state(3).items():
        given[name][...] = 9
        assert made[name].dtype == array.dtype
        assert np.array_equal(made[name], array)
        assert made[name].shape == array.shape


def test_memory_is_used_again_when_its_borrower_is_gone_and_not_before() -> None:
    pool, first = BufferPool(), Owner()
    one, memory = pool.copy(state(1))
    pool.recycle_after(first, memory)
    two, other = pool.copy(state(2))
    assert not np.shares_memory(memory, other)
    assert one["kernel"][0, 0] == 1 and two["kernel"][0, 0] == 2
    del first
    three, again = pool.copy(state(3))
    assert again is memory
    assert three["kernel"][4, 2] == 3
    assert two["kernel"][4, 2] == 2


def test_other_sizes_and_large_states_keep_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    pool, owner = BufferPool(), Owner()
    _, memory = pool.copy(state(1))
    pool.recycle_after(owner, memory)
    del owner
    smaller, fresh = pool.copy({"x": np.arange(4.0)})
    assert smaller["x"].tolist() == [0, 1, 2, 3]
    assert fresh is not memory
    monkeypatch.setattr(buffer_pool, "_KEPT_BYTES", 8)
    owner = Owner()
    pool.recycle_after(owner, fresh)
    del owner
    _, later = pool.copy({"x": np.arange(4.0)})
    assert later is not fresh
