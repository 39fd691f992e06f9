"""The choice of batch sizes that get a graph of their own."""

from __future__ import annotations

from matex.steps.graphs.hot_shape import HotShape


def deserving(sizes: list[int], *, step_s: float, after: int = 3) -> list[int]:
    """The steps after which a graph would be made."""
    usual = HotShape(after=after, short_s=0.01)
    return [n for n, size in enumerate(sizes) if usual.is_hot(size, step_s)]


def test_after_so_many_steps_and_once() -> None:
    assert deserving([8] * 9, step_s=0.001) == [2]


def test_the_last_batches_of_epochs_do_not_matter() -> None:
    assert deserving([8, 8, 5, 8, 8, 5, 8], step_s=0.001) == [3]


def test_each_size_that_becomes_usual() -> None:
    assert deserving([8] * 4 + [6] * 4, step_s=0.001) == [2, 6]


def test_not_where_steps_are_long() -> None:
    assert deserving([8] * 9, step_s=0.02) == []


def test_long_steps_with_loops_after_the_seconds_that_a_graph_takes() -> None:
    usual = HotShape(pays_after_s=0.5)
    sizes = [8, 8, 5, 8, 8, 8, 5]
    assert [n for n, size in enumerate(sizes) if usual.is_hot(size, 0.2)] == [3]
