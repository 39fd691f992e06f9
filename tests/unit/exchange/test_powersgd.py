"""Factors of low rank: their arithmetic, and which gradients travel so."""

from __future__ import annotations

import numpy as np
import pytest

from matex.exchange.powersgd import multiply, orthonormalize, rank_of


@pytest.mark.parametrize(("name", "rank"), [("powersgd:4", 4), ("none", 0), ("int8", 0)])
def test_the_rank_is_part_of_the_name(name: str, rank: int) -> None:
    assert rank_of(name) == rank


def test_columns_become_orthonormal() -> None:
    columns = np.random.default_rng(1).normal(size=(300, 4)).astype(np.float32)
    columns[:, 2] += 1e4 * columns[:, 0]  # nearly the same direction
    before = columns.copy()
    orthonormalize(columns)
    np.testing.assert_allclose(columns.T @ columns, np.eye(4), atol=1e-6)
    # The same space: what projects onto it changes nothing.
    np.testing.assert_allclose(columns @ (columns.T @ before), before, rtol=1e-3, atol=1e-2)


def test_what_is_no_direction_of_its_own_becomes_zero() -> None:
    one = np.arange(1, 51, dtype=np.float32)
    columns = np.stack([np.zeros(50, np.float32), one, 3 * one], axis=1)
    orthonormalize(columns)
    assert not columns[:, [0, 2]].any()
    np.testing.assert_allclose(np.linalg.norm(columns[:, 1]), 1, rtol=1e-6)


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (7, 100_000), (700, 130)])
def test_the_product_is_that_of_the_factors(rows: int, columns: int) -> None:
    generator = np.random.default_rng(2)
    left, right = (generator.normal(size=(n, 3)).astype(np.float32) for n in (rows, columns))
    product = np.empty((rows, columns), np.float32)
    multiply(left, right, product)
    np.testing.assert_allclose(product, left @ right.T, rtol=1e-4, atol=1e-5)
