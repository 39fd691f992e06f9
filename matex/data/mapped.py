"""Rows at fixed places of a file, through a read-only memory map."""

from __future__ import annotations

import math
import mmap
from pathlib import Path
from typing import Any

import numpy as np

from matex.data.rows import Rows, runs
from matex.errors import DataError

__all__ = ["Mapped", "MappedFile"]


class MappedFile:
    """A memory-mapped file; takes no lock and writes nothing.

    The system is advised that access is random: it then reads only the touched pages, instead of
    128 KB around each. A file that is truncated while it is mapped ends the process that touches it
    (SIGBUS), which other ranks notice as a death.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open("rb") as file:
                self.map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:  # ValueError: an empty file
            raise DataError(f"a readable data file is wanted. Received: {path}: {error}") from None
        self.map.madvise(mmap.MADV_RANDOM)

    def __len__(self) -> int:
        return len(self.map)

    def array(
        self,
        name: str,
        shape: tuple[int, ...],
        dtype: Any,
        *,
        offset: int,
        stride: int | None = None,
    ) -> Mapped:
        """Rows of *shape* and *dtype* from byte *offset*, *stride* bytes apart.

        Args:
            name: name of the rows in the file, for messages.
            stride: bytes between starts of rows; by default rows are contiguous.

        Raises:
            DataError: the file ends before the last row, or no array has that shape.
        """
        dtype = np.dtype(dtype)
        row_bytes = math.prod(shape[1:]) * dtype.itemsize
        stride = row_bytes if stride is None else stride
        end = offset + (shape[0] - 1) * stride + row_bytes if shape[0] else offset
        if end > len(self):
            row = max(0, (len(self) - offset - row_bytes) // stride + 1) if stride else 0
            raise DataError(
                f"{self.path} must have {end} bytes for {name} of shape {shape}. "
                f"Received: {len(self)} bytes, cut short at row {row}; copy it again"
            )
        try:
            view = self._view(shape, dtype, offset, stride)
        except ValueError as error:
            raise DataError(
                f"{self.path} must have a shape for {name} that an array can have. "
                f"Received: {shape} from byte {offset} ({error}); copy the file again"
            ) from None
        return Mapped(view, self.map, offset, stride)

    def _view(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], offset: int, stride: int
    ) -> np.ndarray:
        """Bytes of the map as an array; ValueError for too many axes or too large a size."""
        if not math.prod(shape) or not dtype.itemsize:
            return np.empty(shape, dtype)
        inner = tuple(dtype.itemsize * math.prod(shape[axis:]) for axis in range(2, len(shape) + 1))
        return np.ndarray(shape, dtype, buffer=self.map, offset=offset, strides=(stride, *inner))


class Mapped(Rows):
    """Rows of a :class:`MappedFile`, in the byte order of this machine.

    Args:
        view: array over the mapped bytes; axes after the first may be in any order.
        offset, stride: offset of row 0 in *mapping*, and distance from row to row, in bytes.
    """

    def __init__(self, view: np.ndarray, mapping: mmap.mmap, offset: int, stride: int) -> None:
        self._view = view
        self._mapping = mapping
        self._offset = offset
        self._stride = stride
        self._row_bytes = math.prod(view.shape[1:]) * view.itemsize
        self.shape = view.shape
        self.dtype = view.dtype.newbyteorder("=")

    def moved(self, *axes: int) -> Mapped:
        """Rows with their axes in another order; *axes* begins with 0."""
        return Mapped(self._view.transpose(axes), self._mapping, self._offset, self._stride)

    def rows(self, indices: np.ndarray) -> np.ndarray:
        self._announce(indices)
        return np.ascontiguousarray(self._view[indices], dtype=self.dtype)

    def _announce(self, indices: np.ndarray) -> None:
        """Let the system prefetch all the rows, if they are large enough for a call each.

        Touched one after the other they would be waited for one after the other.
        """
        if self._stride != self._row_bytes and self._row_bytes < mmap.PAGESIZE:
            return
        found = runs(np.sort(indices))
        if len(indices) * self._row_bytes < len(found) * mmap.PAGESIZE:
            return
        for _, first, end in found:
            start = (self._offset + first * self._stride) // mmap.PAGESIZE * mmap.PAGESIZE
            stop = self._offset + (end - 1) * self._stride + self._row_bytes
            self._mapping.madvise(mmap.MADV_WILLNEED, start, stop - start)
