"""HDF5: contiguous data sets are mapped, chunked ones read by whole chunks, each once a while."""

from __future__ import annotations

import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from matex.data.mapped import MappedFile
from matex.data.rows import Rows
from matex.data.source import Data
from matex.errors import DataError

__all__ = ["CACHE_BYTES", "Hdf5Rows", "open_hdf5"]

CACHE_BYTES = 256 << 20
_BLOCK_BYTES = 256 << 10  # what is read at once where nothing is chunked


class Hdf5Rows(Rows):
    """The rows of an ``h5py.Dataset``.

    A contiguous data set of a file opened for reading is mapped: a rank touches the pages
    of its own rows. A chunked one can only be read by whole chunks, compressed or not:
    each chunk that holds a wanted row is read once and its rows are kept, the chunks used
    last up to *cache_bytes* (of decompressed rows, at least one chunk).

    In order, or where the cache holds the whole set, a chunk is therefore read once. A
    shuffled epoch of a larger set is another thing: the rows of one step lie in about as
    many chunks as there are rows, and every rank decompresses nearly all of the file many
    times over. ``matex data convert`` makes a contiguous file of it.
    """

    def __init__(self, dataset: h5py.Dataset, *, cache_bytes: int = CACHE_BYTES) -> None:
        self._dataset = dataset
        self.shape = dataset.shape
        self.dtype = dataset.dtype.newbyteorder("=")
        self._mapped = self._map()
        self._lock = threading.Lock()
        self._cache: OrderedDict[int, np.ndarray] = OrderedDict()
        row_bytes = max(1, dataset.dtype.itemsize * int(np.prod(self.shape[1:], dtype=np.int64)))
        self._block = dataset.chunks[0] if dataset.chunks else max(1, _BLOCK_BYTES // row_bytes)
        self._blocks_kept = max(1, cache_bytes // (self._block * row_bytes))

    @property
    def layout(self) -> str:
        """How the rows are stored, in words."""
        if self._mapped is not None:
            return "contiguous, mapped"
        if not self._dataset.chunks:
            return "not chunked"
        packed = self._dataset.compression or "not compressed"
        return f"chunks {self._dataset.chunks}, {packed}"

    def _map(self) -> Rows | None:
        dataset, file = self._dataset, self._dataset.file
        offset = dataset.id.get_offset()
        if offset is None or dataset.dtype.kind not in "fiub":
            return None
        if file.mode != "r" or file.driver != "sec2":
            return None  # what was just written may not be in the file yet
        path = Path(file.filename)
        return MappedFile(path).array(dataset.name, self.shape, dataset.dtype, offset=offset)

    def rows(self, indices: np.ndarray) -> np.ndarray:
        if self._mapped is not None:
            return self._mapped.rows(indices)
        order = np.argsort(indices, kind="stable")
        ascending = indices[order]
        blocks, starts = np.unique(ascending // self._block, return_index=True)
        result = np.empty((len(indices), *self.shape[1:]), self.dtype)
        ends = [*starts[1:], len(indices)] if len(indices) else []
        for block, start, end in zip(blocks.tolist(), starts, ends, strict=True):
            inside = ascending[start:end] - block * self._block
            result[order[start:end]] = self._read(block)[inside]
        return result

    def _read(self, block: int) -> np.ndarray:
        with self._lock:
            if block in self._cache:
                self._cache.move_to_end(block)
                return self._cache[block]
            lo = block * self._block
            hi = min(lo + self._block, self.shape[0])
            try:
                rows: np.ndarray = self._dataset[lo:hi]
            except OSError as error:
                raise DataError(
                    f"{self._dataset.file.filename}: {self._dataset.name} must be readable. "
                    f"Received: rows {lo} to {hi - 1} are damaged ({error}); copy the file again"
                ) from None
            while len(self._cache) >= self._blocks_kept:
                self._cache.popitem(last=False)
            self._cache[block] = rows
            return rows


def open_hdf5(path: Path, *, kind: str = "hdf5") -> Data:
    """All data sets of numbers in *path* that have rows, by their full names.

    Takes no file lock, so a read-only mount and one without locks will do.

    Raises:
        DataError: damaged, cut short, or without such a data set.
    """
    try:
        file = h5py.File(path, "r", locking=False)
    except OSError as error:
        raise DataError(
            f"{path} must be a whole HDF5 file. Received: {error}; copy it again"
        ) from None
    members: dict[str, Rows] = {}
    notes: dict[str, str] = {}

    def add(name: str, item: Any) -> None:
        if not isinstance(item, h5py.Dataset):
            return
        if item.dtype.kind not in "fiub" or not item.shape or not item.shape[0]:
            notes[name] = f"shape {item.shape}, {item.dtype}: no rows of numbers, passed over"
            return
        members[name] = rows = Hdf5Rows(item)
        notes[name] = rows.layout

    try:
        file.visititems(add)
    except (OSError, RuntimeError, DataError) as error:
        file.close()
        raise DataError(f"{path} must be a whole HDF5 file. Received: {error}") from None
    if not members:
        file.close()
        raise DataError(
            f"{path} must have a data set of numbers with at least one row. Received: "
            f"{', '.join(notes) or 'no data set at all'}"
        )
    return Data(path, kind, members, notes=notes, close=file.close)
