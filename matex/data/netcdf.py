"""netCDF: version 4 is HDF5; the classic formats (CDF-1, CDF-2, CDF-5) are read here, mapped."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from h5py import h5d

from matex.data.hdf5 import Hdf5Rows, open_hdf5
from matex.data.mapped import MappedFile
from matex.data.netcdf_header import NetcdfHeader, Variable
from matex.data.netcdf_lengths import FilledUp, shape_by_dimensions
from matex.data.netcdf_values import ATTRIBUTES, Unpacked, fill_of, meaning_of
from matex.data.rows import Rows
from matex.data.source import Data
from matex.errors import DataError

__all__ = ["open_netcdf"]

_NOT_A_COORDINATE = "_nc4_non_coord_"  # before a name that is also that of a dimension


def open_netcdf(path: Path) -> Data:
    """All numeric variables with rows, by name, converted as their attributes say.

    Packed values are unpacked, and those that stand for no value are NaN: see
    :func:`matex.data.netcdf_values.meaning_of`. The notes say which.

    Raises:
        DataError: the file is damaged, truncated, or without such a variable.
    """
    members, notes, close = _classic(path) if not h5py.is_hdf5(path) else _in_hdf5(path)
    if not members:
        close()
        reasons = "; ".join(f"{name}: {note}" for name, note in notes.items())
        raise DataError(
            f"{path} must have a variable of numbers with rows. Received: {reasons or 'none'}"
        )
    return Data(path, "netcdf", members, notes=notes, close=close)


def _meant(rows: Rows, attributes: dict[str, Any], *, prefilled: bool) -> tuple[Rows | None, str]:
    """Rows converted to their meaning, and a remark; None if the meaning is unknown."""
    try:
        meaning = meaning_of(rows.dtype, attributes, prefilled=prefilled)
    except ValueError as error:
        return None, f"{error}, passed over"
    if meaning is None:
        return rows, ""
    return Unpacked(rows, meaning), meaning.words


# ---------------------------------------------------------------- classic

_Found = tuple[dict[str, Rows], dict[str, str], Any]


def _classic(path: Path) -> _Found:
    mapped = MappedFile(path)
    header = NetcdfHeader(path, mapped.map)
    members: dict[str, Rows] = {}
    notes: dict[str, str] = {}
    in_records = [v for v in header.variables if _has_records(header, v)]
    sizes = [_bytes(header, v) for v in in_records]
    # Each variable's part of a record is filled up to four bytes, but not when it is the only one.
    stride = sizes[0] if len(sizes) == 1 else sum(size + -size % 4 for size in sizes)
    for variable in header.variables:
        name = variable.name
        shape = tuple(header.dimensions[d] for d in variable.dimensions)
        records = _has_records(header, variable)
        if records:
            shape = (_records(header, path, variable, stride, len(mapped)), *shape[1:])
        if variable.dtype == "S1" or not shape or not shape[0]:
            why = "text" if variable.dtype == "S1" else "no rows"
            notes[name] = f"shape {shape}: {why}, passed over"
            continue
        rows = mapped.array(
            name,
            shape,
            variable.dtype,
            offset=variable.begin,
            stride=stride if records else None,
        )
        note = "in records, mapped" if records else "contiguous, mapped"
        meant, words = _meant(rows, variable.attributes, prefilled=True)
        notes[name] = "; ".join(filter(None, (note, words)))
        if meant is not None:
            members[name] = meant
    return members, notes, lambda: None


def _has_records(header: NetcdfHeader, variable: Variable) -> bool:
    if any(not 0 <= d < len(header.dimensions) for d in variable.dimensions):
        raise DataError(f"{variable.name} must have dimensions of its file. Received: others")
    return bool(variable.dimensions) and header.dimensions[variable.dimensions[0]] == 0


def _bytes(header: NetcdfHeader, variable: Variable) -> int:
    inner = math.prod(header.dimensions[d] for d in variable.dimensions[1:])
    return inner * np.dtype(variable.dtype).itemsize


def _records(header: NetcdfHeader, path: Path, variable: Variable, stride: int, size: int) -> int:
    if header.records >= 0:
        return header.records
    raise DataError(
        f"{path} must say how many records it has. Received: one that is still being written; "
        f"{(size - variable.begin) // max(1, stride)} are there"
    )


# ---------------------------------------------------------------- netCDF-4


def _in_hdf5(path: Path) -> _Found:
    data = open_hdf5(path, kind="netcdf")
    members: dict[str, Rows] = {}
    notes = {_plain(name): note for name, note in data.notes.items()}
    meant: dict[int, tuple[Rows | None, str]] = {}
    for stored_name, rows in data.items():
        assert isinstance(rows, Hdf5Rows)
        name = _plain(stored_name)
        if id(rows) not in meant:  # else a further name of the same variable
            meant[id(rows)] = _variable(path, rows)
        found, words = meant[id(rows)]
        notes[name] = "; ".join(filter(None, (notes[name], words)))
        if found is not None:
            members[name] = found
    return members, notes, data.close


def _variable(path: Path, stored: Hdf5Rows) -> tuple[Rows | None, str]:
    """Converted rows of a variable, with the length of its dimensions, and a remark.

    Raises:
        DataError: the description of its dimensions is damaged.
    """
    dataset = stored.dataset
    attributes = _attributes(dataset)
    try:
        shape = shape_by_dimensions(dataset)
    except (KeyError, OSError, RuntimeError, ValueError) as error:
        reason = error.args[0] if error.args else type(error).__name__
        raise DataError(
            f"{path} must say which dimensions {dataset.name} has. Received: {reason}; "
            "copy the file again"
        ) from None
    if shape == stored.shape:
        return _meant(stored, attributes, prefilled=_prefilled(dataset))
    fill = fill_of(stored.dtype, attributes)
    filled = FilledUp(stored, shape, fill)
    meant, words = _meant(filled, attributes, prefilled=True)
    short = f"{stored.shape} of {shape} are stored, the rest is the fill value {fill}"
    return meant, "; ".join(filter(None, (short, words)))


def _plain(name: str) -> str:
    """Name of a variable, without HDF5's mark for names that differ from the dimension's."""
    folder, slash, last = name.rpartition("/")
    return folder + slash + last.removeprefix(_NOT_A_COORDINATE)


def _prefilled(dataset: h5py.Dataset) -> bool:
    """Whether the netCDF library set the data set's fill value, not HDF5's default of zero."""
    made = dataset.id.get_create_plist()
    return (
        made.fill_value_defined() == h5d.FILL_VALUE_USER_DEFINED
        and made.get_fill_time() != h5d.FILL_TIME_NEVER
    )


def _attributes(dataset: h5py.Dataset) -> dict[str, Any]:
    """Attributes about the meaning of values: numbers as arrays, others as text."""
    found: dict[str, Any] = {}
    for name in ATTRIBUTES:
        if name not in dataset.attrs:
            continue
        value = dataset.attrs[name]
        if isinstance(value, h5py.Empty):
            continue
        array = np.ravel(value)
        if array.dtype.kind in "fiub":
            found[name] = array
        else:
            first = array[0] if len(array) == 1 else value
            found[name] = (
                first.decode("utf-8", "replace") if isinstance(first, bytes) else str(first)
            )
    return found
