"""Which batch size gets a graph of its own."""

from __future__ import annotations

from matex.steps.usual import Usual


def deserving(sizes: list[int], *, step_s: float, after: int = 3) -> list[int]:
    """The steps at which a graph would be made."""
    usual = Usual(after=after, short_s=0.01)
    return [n for n, size in enumerate(sizes) if usual.deserves(size, n * step_s)]


def test_after_so_many_steps_on_end_and_once() -> None:
    assert deserving([8] * 9, step_s=0.001) == [2]


def test_another_size_begins_the_count_anew() -> None:
    assert deserving([8, 8, 5, 8, 8, 8, 8], step_s=0.001) == [5]


def test_each_size_that_becomes_usual() -> None:
    assert deserving([8] * 4 + [6] * 4, step_s=0.001) == [2, 6]


def test_not_where_steps_are_long() -> None:
    assert deserving([8] * 9, step_s=0.02) == []
