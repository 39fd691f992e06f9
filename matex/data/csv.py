"""CSV as rows: plain text by an index of its lines, gzip read as a whole or in sequence."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from matex.data.csvtext import Dialect, Lines, lines, numbers, sniff
from matex.data.formats import is_gzip
from matex.data.rows import Memory, Rows, runs
from matex.data.source import Data
from matex.errors import DataError, InputError

__all__ = ["GZIP_BYTES", "open_csv"]

GZIP_BYTES = 2 << 30  # float32 values of a .gz file that a rank may hold
_DTYPES = ("float32", "float64")
Progress = Callable[[int, int], None]


class _ColumnReader(Protocol):
    """All columns of rows *indices*, shape (rows, width)."""

    def __call__(self, indices: np.ndarray) -> np.ndarray: ...


class _Columns(Rows):
    """Some columns of a CSV file; columns of a row share its parsing."""

    def __init__(
        self, values: _ColumnReader, rows: int, columns: np.ndarray | int, dtype: np.dtype[Any]
    ) -> None:
        self._values = values
        self._columns = columns
        self.shape = (rows,) if isinstance(columns, int) else (rows, len(columns))
        self.dtype = dtype

    def rows(self, indices: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(self._values(indices)[:, self._columns])


class _Indexed:
    """Lines of a plain file by their offsets: 8 bytes of memory per row, each row read alone."""

    def __init__(self, path: Path, dialect: Dialect, on_progress: Progress | None) -> None:
        self._path = path
        self._dialect = dialect
        starts, end = [np.empty(0, np.int64)], dialect.start
        for part in lines(path, dialect, on_progress):
            starts.append(part.starts + part.offset)
            end = part.offset + len(part.text)
        self._descriptor = os.open(path, os.O_RDONLY)
        end = min(end, os.fstat(self._descriptor).st_size)  # the last line may lack its end
        self._places = np.concatenate([*starts, [end]])
        self._lock = threading.Lock()
        self._last = (np.empty(0, np.int64), np.empty((0, dialect.width), dialect.dtype))

    def __len__(self) -> int:
        return len(self._places) - 1

    def close(self) -> None:
        os.close(self._descriptor)

    def __call__(self, indices: np.ndarray) -> np.ndarray:
        with self._lock:
            if not np.array_equal(indices, self._last[0]):
                self._last = (indices.copy(), self._read(indices))
            return self._last[1]

    def _text(self, first: int, end: int) -> bytes:
        start, stop = int(self._places[first]), int(self._places[end])
        try:
            text = os.pread(self._descriptor, stop - start, start)
        except OSError as error:
            raise DataError(
                f"{self._path} must be readable. Received: {error}, at row {first}"
            ) from None
        if len(text) < stop - start:  # half a number is a number, too
            raise DataError(
                f"{self._path} must not change while it is read. Received: rows {first} to "
                f"{end - 1} in {len(text)} bytes, where there were {stop - start}"
            )
        return text

    def _read(self, indices: np.ndarray) -> np.ndarray:
        order = np.argsort(indices, kind="stable")
        ascending = np.unique(indices)
        pieces = []
        for _, first, end in runs(ascending):
            piece = self._text(first, end)
            pieces.append(piece if piece.endswith(b"\n") else piece + b"\n")
        values = numbers(self._path, self._dialect, b"".join(pieces), ascending)
        result = np.empty((len(indices), self._dialect.width), self._dialect.dtype)
        result[order] = values[np.searchsorted(ascending, indices[order])]
        return result


class _ForwardLines:
    """Lines of a gzip file, which has no offsets: in order only, and once only."""

    def __init__(self, path: Path, dialect: Dialect) -> None:
        self._path = path
        self._dialect = dialect
        self._parts: Iterator[Lines] = lines(path, dialect)
        self._values = np.empty((0, dialect.width), dialect.dtype)
        self._first = 0

    def __call__(self, indices: np.ndarray) -> np.ndarray:
        if len(indices) and int(indices[0]) < self._first:
            raise InputError(
                f"{self._path} is gzip and can only be read forward. "
                f"Received: row {indices[0]} after row {self._first}"
            )
        while len(indices) and int(indices[-1]) >= self._first + len(self._values):
            part = next(self._parts, None)
            if part is None:
                raise DataError(
                    f"{self._path} must not change while it is read. "
                    f"Received: no row {indices[-1]}, which it had"
                )
            more = _parsed(self._path, self._dialect, part)
            kept = self._values[max(0, int(indices[0]) - self._first) :]
            self._first = part.row - len(kept)
            self._values = np.concatenate([kept, more])
        return self._values[indices - self._first]


def _parsed(path: Path, dialect: Dialect, part: Lines) -> np.ndarray:
    rows = np.arange(part.row, part.row + len(part.starts))
    return numbers(path, dialect, part.text, rows)


def open_csv(
    path: Path,
    *,
    label: int | str = 0,
    header: bool | None = None,
    dtype: str = "float32",
    forward: bool = False,
    on_progress: Progress | None = None,
    gzip_bytes: int = GZIP_BYTES,
) -> Data:
    """``x`` and ``y`` of a CSV file, after a pass that checks the width of all rows.

    A plain file is then read by rows. A gzip file cannot be: it is parsed in that pass and
    kept, which every rank does for itself, so a large one is better converted once.

    Args:
        label: column of ``y``, by number (-1 is the last) or by name.
        dtype: type of all values, ``float32`` or ``float64``.
        forward: whether a gzip file is read in order and once, without memory for it.
        on_progress: function of the bytes of the first pass so far, and of all bytes.
        gzip_bytes: bytes that the values of a gzip file may take.

    Raises:
        DataError: it names the file, and the row if known.
        InputError: there is no column *label*, or no such *dtype*.
    """
    if dtype not in _DTYPES:
        raise InputError(f"dtype must be one of {', '.join(_DTYPES)}. Received: {dtype!r}")
    dialect = sniff(path, header, dtype)
    place = _column(path, dialect, label)
    dialect = replace(dialect, exact=place)
    others = np.delete(np.arange(dialect.width), place)
    whole_part = {0: slice(1, None), dialect.width - 1: slice(-1)}.get(place, others)
    packed = is_gzip(path)
    close: Callable[[], None] | None = None
    if packed and not forward:
        table = _whole(path, dialect, gzip_bytes, on_progress)
        count = len(table)
        x: Rows = Memory(table[:, whole_part])  # no copy, where the label is first or last
        y: Rows = Memory(table[:, place].copy())
    else:
        values: _ColumnReader
        if packed:
            count = sum(len(part.starts) for part in lines(path, dialect, on_progress))
            values = _ForwardLines(path, dialect)
        else:
            values = index = _Indexed(path, dialect, on_progress)
            count, close = len(index), index.close
        x, y = (_Columns(values, count, some, dialect.dtype) for some in (others, place))
    if not count:
        raise DataError(f"{path} must have at least one row. Received: a header only")
    names = dialect.columns
    facts = {"columns": [names[i] for i in others], "label": [names[place]]} if names else {}
    how = "gzip, read whole" if packed else "plain, read by rows"
    notes = {
        "columns": f"{dialect.width} between {dialect.delimiter!r}, "
        f"{'with' if names else 'without'} a header; {how}",
        "y": f"column {place}" + (f" ({names[place]})" if names else ""),
    }
    return Data(path, "csv", {"x": x, "y": y}, notes=notes, facts=facts, close=close)


def _column(path: Path, dialect: Dialect, label: int | str) -> int:
    if isinstance(label, str):
        if label in dialect.columns:
            return dialect.columns.index(label)
        known = ", ".join(dialect.columns) or "no header, so give the column's number"
        raise InputError(f"label must be a column of {path}: {known}. Received: {label!r}")
    if not -dialect.width <= label < dialect.width:
        raise InputError(
            f"label must be one of the {dialect.width} columns of {path}. Received: {label}"
        )
    return label % dialect.width


def _whole(
    path: Path, dialect: Dialect, limit_bytes: int, on_progress: Progress | None
) -> np.ndarray:
    """All values of a gzip file, if the estimate from its first part says that they fit."""
    table = np.empty((0, dialect.width), dialect.dtype)
    total, packed, count = path.stat().st_size, 0, 0

    def watch(position: int, size: int) -> None:
        nonlocal packed
        packed = position
        if on_progress is not None:
            on_progress(position, size)

    for part in lines(path, dialect, watch):
        values = _parsed(path, dialect, part)
        end = count + len(values)
        expected = max(end, end * total // packed if packed else 0)
        if expected * dialect.width * dialect.dtype.itemsize > limit_bytes:
            raise DataError(
                f"{path} cannot be read by rows, being gzip, and must take at most "
                f"{limit_bytes >> 20} MiB on every rank. Received: about "
                f"{expected * dialect.width * dialect.dtype.itemsize >> 20} MiB; convert it once: "
                f"matex data convert {path} {path.name.partition('.')[0]}.h5"
            )
        if end > len(table):  # in place: the system moves pages, and untouched ones take no memory
            table.resize((max(end, expected), dialect.width), refcheck=False)
        table[count:end] = values
        count = end
    table.resize((count, dialect.width), refcheck=False)
    return table
