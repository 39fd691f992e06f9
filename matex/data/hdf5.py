"""HDF5: contiguous data sets are mapped, chunked ones read by whole chunks and cached."""

from __future__ import annotations

import threading
from collections import OrderedDict
from pathlib import Path

import h5py
import numpy as np
from h5py import h5s

from matex.data.hdf5_heap import endless_heap
from matex.data.hdf5_members import members
from matex.data.hdf5_storage import gaps, obstacle, packing
from matex.data.hdf5_types import described, memory_type, same_bits
from matex.data.mapped import MappedFile
from matex.data.rows import Rows
from matex.data.source import Data
from matex.errors import DataError

__all__ = ["CACHE_BYTES", "Hdf5Rows", "open_hdf5", "rows_of"]

CACHE_BYTES = 256 << 20
_BLOCK_BYTES = 256 << 10  # read at once if the data set is not chunked
_TOLD = 5  # reasons in the message about a file without rows


class Hdf5Rows(Rows):
    """The rows of an ``h5py.Dataset``.

    A contiguous data set of a file opened for reading, whose type is one of NumPy's bit for bit,
    is mapped: a rank touches the pages of its own rows. Other types are converted by libhdf5.
    A chunked data set can only be read by whole chunks, compressed or not: each chunk that
    holds a wanted row is read once and its rows are kept, the chunks used last up to
    *cache_bytes* (of decompressed rows, at least one chunk).

    In order, or where the cache holds the whole set, a chunk is therefore read once. A
    shuffled epoch of a larger set is another thing: the rows of one step lie in about as
    many chunks as there are rows, and every rank decompresses nearly all of the file many
    times over. ``matex data convert`` makes a contiguous file of it.

    Raises:
        DataError: *dataset* is not of numbers, or is cut short.
    """

    def __init__(self, dataset: h5py.Dataset, *, cache_bytes: int = CACHE_BYTES) -> None:
        stored = dataset.id.get_type()
        dtype = memory_type(stored)
        if dtype is None:
            raise DataError(
                f"{dataset.file.filename}: {dataset.name} must be of numbers. "
                f"Received: {described(stored)}"
            )
        self.dataset = dataset
        self.shape = dataset.shape
        self.dtype = dtype.newbyteorder("=")
        self._dtype = dtype
        self._mapped = self._map()
        self._lock = threading.Lock()
        self._cache: OrderedDict[int, np.ndarray] = OrderedDict()
        row_bytes = max(1, dtype.itemsize * int(np.prod(self.shape[1:], dtype=np.int64)))
        self._block = dataset.chunks[0] if dataset.chunks else max(1, _BLOCK_BYTES // row_bytes)
        self._blocks_kept = max(1, cache_bytes // (self._block * row_bytes))

    @property
    def layout(self) -> str:
        """Description of the storage layout of the rows."""
        if self._mapped is not None:
            return "contiguous, mapped"
        if self.dataset.is_virtual:
            return "virtual"
        if self.dataset.external:
            return f"in {', '.join(name for name, *_ in self.dataset.external)}"
        if not self.dataset.chunks:
            same = same_bits(self.dataset.id.get_type(), self._dtype)
            return "not chunked" if same else "not chunked, converted"
        packed = packing(self.dataset) or "not compressed"
        return f"chunks {self.dataset.chunks}, {packed}"

    def _map(self) -> Rows | None:
        dataset, file = self.dataset, self.dataset.file
        offset = dataset.id.get_offset()
        if offset is None or not dataset.shape or not same_bits(dataset.id.get_type(), self._dtype):
            return None
        if file.mode != "r" or file.driver != "sec2":
            return None  # data just written may not be in the file yet
        path = Path(file.filename)
        return MappedFile(path).array(dataset.name, self.shape, self._dtype, offset=offset)

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
                rows = self._values(lo, hi)
            except OSError as error:
                raise DataError(
                    f"{self.dataset.file.filename}: {self.dataset.name} must be readable. "
                    f"Received: rows {lo} to {hi - 1} are damaged ({error}); copy the file again"
                ) from None
            while len(self._cache) >= self._blocks_kept:
                self._cache.popitem(last=False)
            self._cache[block] = rows
            return rows

    def _values(self, lo: int, hi: int) -> np.ndarray:
        """Rows [lo, hi), converted by libhdf5, which can convert more types than h5py knows."""
        rows = np.empty((hi - lo, *self.shape[1:]), self._dtype)
        space = self.dataset.id.get_space()
        space.select_hyperslab((lo, *(0,) * (rows.ndim - 1)), rows.shape)
        self.dataset.id.read(h5s.create_simple(rows.shape), space, rows)
        return rows


def rows_of(dataset: h5py.Dataset) -> Hdf5Rows:
    """Rows of *dataset*, after a check that they can be read.

    Raises:
        DataError: it does not hold numbers, or parts of it are missing; the message names them.
    """
    why = obstacle(dataset)
    if why is not None:
        raise DataError(
            f"{dataset.file.filename}: {dataset.name} must be readable. Received: {why}"
        )
    return Hdf5Rows(dataset)


def open_hdf5(path: Path, *, kind: str = "hdf5") -> Data:
    """All numeric data sets of *path* that have rows, by their full names.

    Soft, external and further hard links to data sets are names of theirs. What is not given
    is in the notes, with the reason. Takes no file lock, so a read-only mount and one without
    locks will do.

    Raises:
        DataError: the file is damaged, truncated, or without such a data set.
    """
    try:
        damaged = endless_heap(path)
        file = h5py.File(path, "r", locking=False) if damaged is None else None
    except OSError as error:
        raise DataError(
            f"{path} must be a whole HDF5 file. Received: {error}; copy it again"
        ) from None
    if file is None:
        raise DataError(
            f"{path} must be a whole HDF5 file. Received: a heap at byte {damaged} in which an "
            "object has no length, so that its end would never be found; copy it again"
        )
    try:
        rows, notes = _found(file)
    except (KeyError, OSError, RuntimeError, DataError) as error:
        file.close()
        reason = error.args[0] if error.args else type(error).__name__
        raise DataError(f"{path} must be a whole HDF5 file. Received: {reason}") from None
    if not rows:
        file.close()
        reasons = [f"{name}: {note}" for name, note in notes.items()]
        more = f"; and {len(reasons) - _TOLD} more" if len(reasons) > _TOLD else ""
        raise DataError(
            f"{path} must have a data set of numbers with at least one row. "
            f"Received: {'; '.join(reasons[:_TOLD]) or 'no data set at all'}{more}"
        )
    return Data(path, kind, rows, notes=notes, close=file.close)


def _found(file: h5py.File) -> tuple[dict[str, Rows], dict[str, str]]:
    """Rows and notes by name, in the order of the names."""
    there = members(file)
    rows: dict[str, Rows] = {}
    notes = dict(there.notes)
    for name, dataset in there.datasets.items():
        why = obstacle(dataset)
        if why is None and (not dataset.shape or not dataset.shape[0]):
            why = "no rows"
        if why is not None:
            # is_virtual reads the fill value, too. That of a dataset without numbers may have a
            # varying length and lie in a heap, which libhdf5 1.14.6 reads without end if it is
            # zeroed.
            virtual = memory_type(dataset.id.get_type()) is not None and dataset.is_virtual
            shape = "" if virtual else f"shape {dataset.shape}: "
            notes[name] = f"{shape}{why}, passed over"
            continue
        rows[name] = opened = Hdf5Rows(dataset)
        away = dataset.file.filename != file.filename
        elsewhere = f"in {dataset.file.filename}" if away else None
        known = (opened.layout, elsewhere, there.notes.get(name), gaps(dataset))
        notes[name] = "; ".join(note for note in known if note)
    for name, first in there.aliases.items():
        notes[name] = f"the same as {first}"
        if first in rows:
            rows[name] = rows[first]
    return {name: rows[name] for name in sorted(rows)}, {
        name: notes[name] for name in sorted(notes)
    }
