"""Sum of a step's gradients as factors of low rank, small enough for a slow network.

PowerSGD: Vogels, Karimireddy and Jaggi, arXiv:1905.13727. A gradient of n x m numbers, summed over
the ranks, travels as two factors of n x R and m x R: each rank multiplies its own part by the
same m x R matrix, the products are summed (first exchange) and made orthonormal, each rank
multiplies its part by them, and these products are summed, too (second exchange). The product
of the summed factors replaces the gradient's sum, and each rank adds the rest of its own part
in the next step (error feedback).

The result does not depend on the order in which hosts sum, because every product is linear in the
gradients. It is bit-identical on machines of any kind: each member computes with the sums by
single operations, without a library's choice of instructions.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from math import prod
from typing import Any, NamedTuple

import numpy as np

import ft
from matex.exchange.layout import Layout, header_of
from matex.exchange.route import Extent, Range, Route
from matex.exchange.slices import Slices

__all__ = ["PowerSgd", "multiply", "orthonormalize", "rank_of"]

_NAME = "powersgd:"

# Factors are worth two exchanges if they have fewer than half the numbers of the gradient.
_LEAST_GAIN = 2

# Number of elements of a product computed at a time, so that they stay in the cache.
_CACHED = 1 << 16

# A column is dependent if orthogonalisation leaves less than this fraction of it.
_NOTHING = 1e-6


def rank_of(compression: str) -> int:
    """Rank of the factors of gradients; 0 if they are not factorised. Pure."""
    return int(compression.removeprefix(_NAME)) if compression.startswith(_NAME) else 0


class _Matrix(NamedTuple):
    """A gradient sent as factors: its place in the vector, and the places of the factors."""

    place: Range
    rows: int
    columns: int
    left_place: Range
    right_place: Range

    @property
    def right_size(self) -> int:
        return self.right_place.size

    def of(self, vector: np.ndarray) -> np.ndarray:
        return vector[self.place.start : self.place.stop].reshape(self.rows, self.columns)

    def left(self, factors: np.ndarray) -> np.ndarray:
        place = self.left_place
        return factors[place.start : place.stop].reshape(self.rows, -1)

    def right(self, factors: np.ndarray) -> np.ndarray:
        place = self.right_place
        return factors[place.start : place.stop].reshape(self.columns, -1)


class PowerSgd:
    """Exchange of the vectors of one layout, with gradients as factors.

    Small gradients and the auxiliary part travel unchanged beside the left factors. Error feedback
    holds the rest of this rank's own part: a death loses that of the dead rank, and a change of the
    layout all of it; it is not in checkpoints.

    Args:
        communicator: communicator of the members.
        layout: layout of the vector.
        rank: number of columns of a factor.
        route_of: function that returns the route among the members.
    """

    def __init__(
        self,
        communicator: ft.Communicator,
        layout: Layout,
        *,
        rank: int,
        route_of: Callable[[ft.World], Route] = Route.of,
    ) -> None:
        self._communicator = communicator
        self._rank = rank
        body, dtype = layout.offsets[-2], layout.dtype
        self._matrices, self._plain, start = _places(layout, rank)
        auxiliary = Range(start, start + sum(layout.auxiliary_sizes))
        self._auxiliary = auxiliary
        self._plain.append((Range(body, body + auxiliary.size), auxiliary))
        self._cut = cut = auxiliary.stop
        rights = sum(matrix.right_size for matrix in self._matrices)
        self._first = Slices(communicator, Extent(start, start, cut, dtype), route_of=route_of)
        self._second = Slices(communicator, Extent.plain(rights, dtype), route_of=route_of)
        self._own = np.zeros(cut + rights, dtype)
        self._factors = [np.zeros(cut + rights, dtype) for _ in range(2)]
        self._compensated, self._error, self._next_error = (np.zeros(body, dtype) for _ in range(3))
        self._generator = np.random.default_rng(0)
        self._starts = [self._random(matrix.columns, rank) for matrix in self._matrices]
        self._has_right = self._is_new = False
        self._is_unpacked = True
        # Its import sets KMP_DUPLICATE_LIB_OK for the process: not where matex is imported.
        threadpoolctl = importlib.import_module("threadpoolctl")
        self._threads = threadpoolctl.ThreadpoolController()

    @property
    def factors(self) -> np.ndarray:
        """Result of the newest exchange, which a peer may need until the next one is complete."""
        return self._factors[0]

    @property
    def is_whole(self) -> bool:
        """Whether the newest result includes every current member. Local."""
        auxiliary = self._auxiliary
        header = header_of(self.factors[auxiliary.start : auxiliary.stop])
        return header.ranks == self._communicator.world.size

    @property
    def bytes(self) -> int:
        """Bytes that this rank sends in one exchange."""
        return self._first.bytes + self._second.bytes

    def next_operation(self) -> None:
        """Keep the newest result, and use the other buffer for the next one. Local."""
        self._factors.reverse()

    def next_step(self) -> None:
        """Start a new step, with the rests and the directions of the last one. Local."""
        if not self._is_new:
            return
        self._is_new = False
        self._error, self._next_error = self._next_error, self._error
        self._starts = [self._start_after(matrix) for matrix in self._matrices]

    def skip(self) -> None:
        """Drop an exchange that failed: its step is made without one. Local."""
        self._is_unpacked = True

    def exchange(self, comm: Any, send: np.ndarray) -> None:
        """Sum *send* over the members, as factors; collective.

        Args:
            comm: ``mpi4py.MPI.Comm`` of the members.
        """
        own, factors, cut = self._own, self.factors, self._cut
        self._has_right = self._is_unpacked = False
        for part, place in self._plain:
            own[place.start : place.stop] = send[part.start : part.stop]
        np.add(send[: self._error.size], self._error, out=self._compensated)
        with self._one_thread():
            for matrix, start in zip(self._matrices, self._starts, strict=True):
                np.matmul(matrix.of(self._compensated), start, out=matrix.left(own))
        self._first.exchange(comm, own[:cut], factors[:cut])
        for matrix in self._matrices:
            orthonormalize(matrix.left(factors))
        self._multiply_own()
        self._second.exchange(comm, own[cut:], factors[cut:])

    def unpack(self, vector: np.ndarray) -> None:
        """Write the newest result into *vector*, unless already done; local."""
        if self._is_unpacked:
            return
        if not self._has_right:
            self._multiply_own()  # the result is from a peer, and includes this rank's part
        for part, place in self._plain:
            vector[part.start : part.stop] = self.factors[place.start : place.stop]
        for matrix in self._matrices:
            left = matrix.left(self.factors)
            multiply(left, matrix.right(self.factors), matrix.of(vector))
            with self._one_thread():
                own = left @ matrix.right(self._own).T
            np.subtract(matrix.of(self._compensated), own, out=matrix.of(self._next_error))
        # A step whose numbers are not finite makes no update.
        if not self._is_finite() or not np.isfinite(self._next_error).all():
            self._next_error[:] = self._error
        self._is_unpacked = self._is_new = True

    def _is_finite(self) -> bool:
        """Whether the sums of all gradients are finite, equally on all ranks."""
        factors, auxiliary = self.factors, self._auxiliary
        gradients = (factors[: auxiliary.start], factors[auxiliary.stop :])
        return all(bool(np.isfinite(part).all()) for part in gradients)

    def _multiply_own(self) -> None:
        """Compute the right factors of this rank's own part."""
        with self._one_thread():
            for matrix in self._matrices:
                left = matrix.left(self.factors)
                np.matmul(matrix.of(self._compensated).T, left, out=matrix.right(self._own))
        self._has_right = True

    def _one_thread(self) -> AbstractContextManager[object]:
        """Context in which BLAS computes in the calling thread alone."""
        return self._threads.limit(limits=1, user_api="blas")

    def _start_after(self, matrix: _Matrix) -> np.ndarray:
        """Start matrix of the next step: the directions in which the last one ended."""
        start = matrix.right(self.factors).copy()
        if not np.isfinite(start).all():
            start[:] = 0
        orthonormalize(start)
        missing = ~start.any(0)
        start[:, missing] = self._random(matrix.columns, int(missing.sum()))
        return start

    def _random(self, rows: int, columns: int) -> np.ndarray:
        numbers = self._generator.standard_normal((rows, columns)) / np.sqrt(rows)
        return numbers.astype(self._own.dtype)


def orthonormalize(columns: np.ndarray) -> None:
    """Make the columns orthonormal in place; dependent columns become zero.

    The result is bit-identical on every machine.
    """
    done = np.zeros(columns.T.shape, np.float64)
    for number, column in enumerate(columns.T.astype(np.float64)):
        length = np.sqrt(np.sum(column * column))
        for earlier in (*done[:number], *done[:number]):
            np.subtract(column, np.sum(column * earlier) * earlier, out=column)
        rest = np.sqrt(np.sum(column * column))
        if rest > _NOTHING * length:
            done[number] = column / rest
    columns[:] = done.T


def multiply(left: np.ndarray, right: np.ndarray, product: np.ndarray) -> None:
    """Write *left* times the transpose of *right*; bit-identical on every machine."""
    step = max(1, _CACHED // len(right))
    first, *others = map(np.ascontiguousarray, right.T)
    part = np.empty((step, len(right)), product.dtype)
    for start in range(0, len(left), step):
        rows, block = left[start : start + step], product[start : start + step]
        np.multiply.outer(rows[:, 0], first, out=block)
        for number, column in enumerate(others, 1):
            np.multiply.outer(rows[:, number], column, out=part[: len(rows)])
            block += part[: len(rows)]


def _places(layout: Layout, rank: int) -> tuple[list[_Matrix], list[tuple[Range, Range]], int]:
    """Places of each gradient of *layout* and of its factors.

    Returns:
        Gradients sent as factors, places of the other gradients, and the end of the left factors
        and the others. The right factors follow the auxiliary part.
    """
    starts, shapes = layout.offsets, layout.shapes[:-1]
    sizes = [(prod(shape[:-1]), shape[-1]) if shape else (1, 1) for shape in shapes]
    factored = [
        start < layout.lasting and _LEAST_GAIN * rank * (rows + columns) <= rows * columns
        for start, (rows, columns) in zip(starts, sizes, strict=False)
    ]
    plain, left = [], 0
    lefts: dict[int, Range] = {}
    for number, (rows, columns) in enumerate(sizes):
        size = rank * rows if factored[number] else rows * columns
        place = Range(left, left + size)
        left = place.stop
        if factored[number]:
            lefts[number] = place
        else:
            plain.append((Range(starts[number], starts[number] + size), place))
    matrices, right = [], left + sum(layout.auxiliary_sizes)
    for number, place in lefts.items():
        rows, columns = sizes[number]
        inside = Range(starts[number], starts[number] + rows * columns)
        matrices.append(_Matrix(inside, rows, columns, place, Range(right, right + rank * columns)))
        right = matrices[-1].right_place.stop
    return matrices, plain, left
