"""Reading ahead: the same rows, errors where they belong, and a thread that ends."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from matex.data.prefetch import WORTH_S, Prefetch
from matex.errors import InputError


class Source:
    """Counts who reads what; each read takes what the prefetcher finds worth a thread."""

    def __init__(self, *, costly: bool = True, bad_row: int = -1) -> None:
        self.costly = costly
        self.bad_row = bad_row
        self.reads: list[tuple[str, list[int]]] = []

    def rows(self, indices: np.ndarray) -> np.ndarray:
        self.reads.append((threading.current_thread().name, indices.tolist()))
        threading.Event().wait(2 * WORTH_S)
        if self.bad_row in indices:
            raise InputError(f"file.h5 must be readable. Received: row {self.bad_row}")
        return indices * 10


def step(number: int) -> np.ndarray:
    return np.arange(4 * number, 4 * number + 4)


def ahead(source: Source) -> list[list[int]]:
    return [rows for name, rows in source.reads if name.startswith("matex-reader")]


def test_the_next_rows_are_read_by_a_thread_and_each_once() -> None:
    source = Source()
    reader = Prefetch(source)
    for number in range(5):
        following = step(number + 1) if number < 4 else np.arange(0)
        found = reader.rows(step(number), then=lambda f=following: f)
        assert found.tolist() == (step(number) * 10).tolist()
    reader.close()
    assert ahead(source) == [step(n).tolist() for n in range(1, 5)]
    assert [rows for _, rows in source.reads] == [step(n).tolist() for n in range(5)]
    assert not [t for t in threading.enumerate() if t.name.startswith("matex-reader")]


def test_a_wrong_guess_costs_a_read_and_nothing_else() -> None:
    source = Source(bad_row=99)
    reader = Prefetch(source)
    reader.rows(step(0), then=lambda: np.array([98, 99]))
    assert reader.rows(step(5), then=lambda: step(6)).tolist() == (step(5) * 10).tolist()
    assert reader.rows(step(6), then=lambda: step(7)).tolist() == (step(6) * 10).tolist()
    reader.close()
    assert reader.rows(step(7), then=lambda: step(8)).tolist() == (step(7) * 10).tolist()
    reader.close()


def test_an_error_in_the_thread_is_raised_where_the_rows_are_wanted() -> None:
    reader = Prefetch(Source(bad_row=6))
    reader.rows(step(0), then=lambda: step(1))
    with pytest.raises(InputError, match=r"file.h5 must be readable. Received: row 6"):
        reader.rows(step(1), then=lambda: step(2))
    reader.close()


def test_memory_is_read_without_a_thread() -> None:
    source = Source(costly=False)
    reader = Prefetch(source)
    for number in range(3):
        reader.rows(step(number), then=lambda: pytest.fail("no guess is needed"))
    assert ahead(source) == []
    reader.close()
