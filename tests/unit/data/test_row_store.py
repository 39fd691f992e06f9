"""Rows in memory by their numbers: what was put is what is taken, and space is used again."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from matex.data.row_store import Form, RowStore

SAMPLES = 40
FORMS = [Form((2, 3), np.dtype(np.float32)), Form((), np.dtype(bool)), Form((0,), np.dtype("i8"))]
numbers = st.lists(st.integers(0, SAMPLES - 1), unique=True).map(lambda n: np.array(n, np.int64))
X = np.random.default_rng(0).normal(size=(SAMPLES, 2, 3)).astype(np.float32)


def tables(rows: np.ndarray, version: int) -> list[np.ndarray]:
    return [X[rows] + version, (rows + version) % 3 == 0, np.empty((len(rows), 0), np.int64)]


@given(st.lists(st.tuples(st.sampled_from(["put", "drop"]), numbers)), st.integers(0, 20))
def test_it_holds_what_was_put_last_and_not_dropped(
    calls: list[tuple[str, np.ndarray]], capacity: int
) -> None:
    store, model, most = RowStore(SAMPLES, FORMS, capacity=capacity), dict[int, int](), 0
    for version, (call, rows) in enumerate(calls):
        if call == "put":
            store.put(rows, tables(rows, version))
            model |= dict.fromkeys(rows.tolist(), version)
        else:
            store.drop(rows)
            model = {row: v for row, v in model.items() if row not in rows}
        most = max(most, len(model))
        assert store.count == len(model)
        assert store.numbers.tolist() == sorted(model)
        assert store.holds(rows).tolist() == [row in model for row in rows.tolist()]
    assert store.most == most
    held = np.array(list(model), np.int64)
    for row, *found in zip(held, *store.take(held), strict=True):
        for mine, wanted in zip(found, tables(np.array([row]), model[int(row)]), strict=True):
            np.testing.assert_array_equal(mine, wanted[0])


def test_room_that_was_freed_is_used_again() -> None:
    store = RowStore(SAMPLES, FORMS[:1], capacity=4)
    before = store.nbytes
    for lo in range(0, SAMPLES - 4, 4):
        rows = np.arange(lo, lo + 4)
        store.put(rows, tables(rows, 0)[:1])
        store.drop(rows)
    assert store.nbytes == before
    store.put(np.arange(5), tables(np.arange(5), 0)[:1])
    assert store.nbytes > before
