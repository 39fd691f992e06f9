"""Inverses of symmetric matrices by halves: few large products in place of LAPACK's many small."""

from __future__ import annotations

import numpy as np

__all__ = ["inverse_root", "squared"]

# LAPACK and BLAS work on this in one thread.
_SMALL = 32

# Up to here the zeros of a triangular matrix are multiplied with the rest.
_HALVED = 128


def inverse_root(matrix: np.ndarray) -> np.ndarray:
    """The R of which R^T R is the inverse of a positive definite *matrix* of unit diagonal.

    Lower triangular: the inverse of the Cholesky factor.
    """
    n = len(matrix)
    if n <= _SMALL:
        return np.asarray(np.linalg.inv(np.linalg.cholesky(matrix)))
    half = n // 2
    first = inverse_root(matrix[:half, :half])
    below = matrix[half:, :half] @ first.T
    second = inverse_root(matrix[half:, half:] - below @ below.T)
    result = np.zeros_like(matrix)
    result[:half, :half], result[half:, half:] = first, second
    np.matmul(second, below @ first, out=result[half:, :half])
    np.negative(result[half:, :half], out=result[half:, :half])
    return result


def squared(root: np.ndarray) -> np.ndarray:
    """R^T R of a lower triangular R of at least as many rows as columns."""
    n = root.shape[1]
    result = np.empty((n, n))
    _square_into(result, root)
    return result


def _square_into(result: np.ndarray, root: np.ndarray) -> None:
    n = root.shape[1]
    if n <= _HALVED:
        np.matmul(root.T, root, out=result)
        return
    half = n // 2
    below, right = root[half:, :half], root[half:, half:]
    _square_into(result[:half, :half], root[:half, :half])
    result[:half, :half] += below.T @ below
    _square_into(result[half:, half:], right)
    np.matmul(right.T, below, out=result[half:, :half])
    result[:half, half:] = result[half:, :half].T
