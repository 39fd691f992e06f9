"""Conversion of any format to contiguous HDF5 by rows: one pass, bounded memory."""

from __future__ import annotations

import contextlib
import fcntl
import glob
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import h5py
import numpy as np

from matex.data.csv import open_csv
from matex.data.formats import format_of
from matex.data.opening import open as open_data
from matex.data.source import Data
from matex.errors import InputError

__all__ = ["check_target", "convert", "open_to_convert"]

_BLOCK_BYTES = 4 << 20
Progress = Callable[[int, int], None]


# An attribute of HDF5 holds 64 KiB with its header, and of strings 16 bytes for each besides.
_ATTRIBUTE_BYTES = 32 << 10


def open_to_convert(
    path: Path,
    *,
    on_progress: Progress | None = None,
    format: str | None = None,
    label: int | str | None = None,
    header: bool | None = None,
    size: tuple[int, int] | None = None,
    dtype: str = "float32",
) -> Data:
    """Open as :func:`matex.data.open` does, but read a gzip CSV file once, in little memory.

    Args:
        on_progress: function of the number of checked bytes of a CSV file, and of its size.
        dtype: type that floating point is to be stored as: numbers of text are read as exactly.
    """
    if format_of(path, format) == "csv" and size is None:
        place = 0 if label is None else label
        wide = "float64" if dtype == "float64" else "float32"
        return open_csv(
            path, label=place, header=header, dtype=wide, forward=True, on_progress=on_progress
        )
    return open_data(path, format=format, label=label, header=header, size=size)


def convert(
    data: Data,
    target: Path,
    *,
    test_rows: int = 0,
    dtype: str = "float32",
    force: bool = False,
    on_progress: Progress | None = None,
) -> None:
    """Write all members of *data* to *target* as contiguous data sets of the same names.

    The file appears under its name when it is whole, or not at all.

    Args:
        test_rows: number of rows at the end that become ``x_test`` and ``y_test``, the others
            ``x_train`` and ``y_train``; 0 leaves the members as they are.
        dtype: dtype of floating-point members.
        force: replace *target*.
        on_progress: function of the number of rows written so far, and of all rows.

    Raises:
        InputError: *target* exists or has no space, or *data* cannot be split.
        DataError: *data* is damaged.
        OSError: *target* cannot be written.
    """
    check_target(target, force)
    data = _distinct(data)
    parts = [("", data)]
    if test_rows:
        train, test = data.split(test_rows)
        parts = [("_train", train), ("_test", test)]
    total = sum(len(rows) for _, part in parts for rows in part.values())
    _remove_left(target)
    _check_room(target, data, np.dtype(dtype))
    partial = _partial(target, os.getpid())
    held = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    done = 0
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with h5py.File(partial, "w", locking=False) as file:
            for suffix, part in parts:
                for group in _groups(part):
                    for rows in _copied(file, part, group, suffix, np.dtype(dtype)):
                        done += rows
                        if on_progress is not None:
                            on_progress(done, total)
            file.attrs["source"] = data.path.name
            for name, words in data.facts.items():
                if sum(len(word.encode()) + 16 for word in words) < _ATTRIBUTE_BYTES:
                    file.attrs[name] = words
                else:
                    file.create_dataset(name, data=words, dtype=h5py.string_dtype())
        with partial.open("rb") as written:
            os.fsync(written.fileno())
        check_target(target, force)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
        os.close(held)


def _partial(target: Path, process: int | str) -> Path:
    """Name beside *target* that its content has until it is whole."""
    return target.with_name(f".{target.name}.{process}.partial")


def _remove_left(target: Path) -> None:
    """Remove what conversions to *target* that were killed have left; others hold a lock."""
    for path in target.parent.glob(_partial(Path(glob.escape(target.name)), "*").name):
        with contextlib.suppress(OSError), path.open("rb") as file:  # another user's, no locks
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()


def _distinct(data: Data) -> Data:
    """Without second names of the same rows; ``x`` and ``y`` stay."""
    short = sorted(data, key=len)
    first = {id(data[name]): name for name in reversed(short)}
    members = {name: rows for name, rows in data.items() if first[id(rows)] == name}
    return Data(data.path, data.format, members, notes=data.notes, facts=data.facts)


def check_target(target: Path, force: bool) -> None:
    """Whether *target* may be written.

    Raises:
        InputError: *target* exists, or its folder does not.
    """
    if target.is_dir() or (target.exists() and not force):
        hint = "name a file" if target.is_dir() else "give --force to replace it"
        raise InputError(f"a new file is wanted. Received: {target}, which exists; {hint}")
    if not target.parent.is_dir():
        raise InputError(f"an existing folder is wanted. Received: {target.parent}")


def _check_room(target: Path, data: Data, dtype: np.dtype[np.generic]) -> None:
    wanted = sum(
        rows.size * (dtype if rows.dtype.kind == "f" else rows.dtype).itemsize
        for rows in data.values()
    )
    free = shutil.disk_usage(target.parent).free
    if wanted > free:
        raise InputError(
            f"{target} needs {wanted >> 20} MiB. Received: {free >> 20} MiB free in {target.parent}"
        )


def _groups(data: Data) -> list[list[str]]:
    """Groups of members with the same number of rows, whose shared data are read once."""
    by_rows: dict[int, list[str]] = {}
    for name, rows in data.items():
        by_rows.setdefault(len(rows), []).append(name)
    return list(by_rows.values())


def _copied(
    file: h5py.File, data: Data, names: list[str], suffix: str, dtype: np.dtype[np.generic]
) -> Iterator[int]:
    """Copy members of equal length; yield the number of rows so far after each block."""
    sets = {}
    for name in names:
        rows = data[name]
        kind = dtype if rows.dtype.kind == "f" else rows.dtype
        sets[name] = file.create_dataset(f"{name}{suffix}", rows.shape, kind, chunks=None)
    count = len(data[names[0]])
    row_bytes = sum(data[name].size * data[name].dtype.itemsize for name in names) // count
    step = max(1, _BLOCK_BYTES // max(1, row_bytes))
    for lo in range(0, count, step):
        indices = np.arange(lo, min(lo + step, count))
        for name in names:
            sets[name][lo : lo + step] = data[name].rows(indices)
        yield len(indices) * len(names)
