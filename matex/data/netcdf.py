"""netCDF: version 4 is HDF5; the classic formats (CDF-1, CDF-2, CDF-5) are read here, mapped.

The classic layout (NetCDF Users Guide, Appendix B): a header of dimensions, attributes and
variables with their places, all big-endian, then the values of the variables without a record
dimension, then records in which those with one take turns.
"""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np

from matex.data.hdf5 import open_hdf5
from matex.data.mapped import MappedFile
from matex.data.rows import Rows
from matex.data.source import Data
from matex.errors import DataError

__all__ = ["open_netcdf"]

_TYPES = {
    1: ">i1", 2: "S1", 3: ">i2", 4: ">i4", 5: ">f4", 6: ">f8",
    7: ">u1", 8: ">u2", 9: ">u4", 10: ">i8", 11: ">u8",
}  # fmt: skip
_DIMENSIONS, _VARIABLES, _ATTRIBUTES = 10, 11, 12
_SPECIAL = ("scale_factor", "add_offset", "_FillValue", "missing_value")


class _Unpacked(Rows):
    """Values as ``packed * scale_factor + add_offset``, float32; fill values as NaN."""

    def __init__(self, packed: Rows, attributes: dict[str, Any]) -> None:
        self._packed = packed
        self._scale = np.float64(attributes.get("scale_factor", 1))
        self._offset = np.float64(attributes.get("add_offset", 0))
        names = ("_FillValue", "missing_value")
        self._fills = [attributes[name] for name in names if name in attributes]
        self.shape = packed.shape
        self.dtype = np.dtype(np.float32)
        self.costly = packed.costly

    def rows(self, indices: np.ndarray) -> np.ndarray:
        packed = self._packed.rows(indices)
        values = (packed * self._scale + self._offset).astype(np.float32)
        for fill in self._fills:
            values[packed == fill] = np.nan
        return values


class _Variable(NamedTuple):
    name: str
    dimensions: list[int]
    attributes: dict[str, Any]
    dtype: str
    begin: int


class _Header:
    """Reads the header from its beginning to its end."""

    def __init__(self, path: Path, content: Any) -> None:
        self._path = path
        self._content = content
        self._place = 4
        version = content[3]
        self._count, self._count_bytes = (">q", 8) if version == 5 else (">i", 4)
        self._offset, self._offset_bytes = (">i", 4) if version == 1 else (">q", 8)
        self.records = self._number(self._count, self._count_bytes)
        self.dimensions = [self._dimension() for _ in range(self._list(_DIMENSIONS))]
        self._attributes()
        self.variables = [self._variable() for _ in range(self._list(_VARIABLES))]

    def _take(self, size: int) -> bytes:
        piece = bytes(self._content[self._place : self._place + size])
        if size < 0 or len(piece) < size:
            raise DataError(f"{self._path} must be a whole netCDF file. Received: no whole header")
        self._place += size + -size % 4
        return piece

    def _number(self, form: str, size: int) -> int:
        return int(struct.unpack(form, self._take(size))[0])

    def _length(self) -> int:
        return self._number(self._count, self._count_bytes)

    def _list(self, wanted: int) -> int:
        tag, count = self._number(">i", 4), self._length()
        if tag not in (0, wanted) or (count and not tag):
            raise DataError(f"{self._path} must be a whole netCDF file. Received: list {tag}")
        return count

    def _name(self) -> str:
        return self._take(self._length()).decode("utf-8", "replace")

    def _dimension(self) -> int:
        self._name()
        return self._length()

    def _type(self) -> str:
        number = self._number(">i", 4)
        if number not in _TYPES:
            raise DataError(f"{self._path} must be a whole netCDF file. Received: type {number}")
        return _TYPES[number]

    def _attributes(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for _ in range(self._list(_ATTRIBUTES)):
            name, dtype, count = self._name(), np.dtype(self._type()), self._length()
            values = np.frombuffer(self._take(count * dtype.itemsize), dtype)
            if dtype.kind != "S" and count:
                found[name] = values[0]
        return found

    def _variable(self) -> _Variable:
        name = self._name()
        dimensions = [self._length() for _ in range(self._length())]
        attributes, dtype = self._attributes(), self._type()
        self._length()  # the size of a record, which is too small a number for large ones
        begin = self._number(self._offset, self._offset_bytes)
        return _Variable(name, dimensions, attributes, dtype, begin)


def open_netcdf(path: Path) -> Data:
    """All variables of numbers that have rows, by name; packed ones unpacked to float32.

    Raises:
        DataError: damaged, cut short, or without such a variable.
    """
    if h5py.is_hdf5(path):
        return _open_netcdf4(path)
    mapped = MappedFile(path)
    header = _Header(path, mapped.map)
    members: dict[str, Rows] = {}
    notes: dict[str, str] = {}
    in_records = [v for v in header.variables if _has_records(header, v)]
    sizes = [_bytes(header, v) for v in in_records]
    # Each variable's part of a record is filled up to four bytes, but not when it is the only one.
    stride = sizes[0] if len(sizes) == 1 else sum(size + -size % 4 for size in sizes)
    for variable in header.variables:
        shape = tuple(header.dimensions[d] for d in variable.dimensions)
        records = variable in in_records
        if records:
            shape = (_records(header, path, variable, stride, len(mapped)), *shape[1:])
        if variable.dtype == "S1" or not shape or not shape[0]:
            notes[variable.name] = f"shape {shape}: no rows of numbers, passed over"
            continue
        rows = mapped.array(
            variable.name,
            shape,
            variable.dtype,
            offset=variable.begin,
            stride=stride if records else None,
        )
        members[variable.name] = _unpacked(rows, variable.attributes)
        notes[variable.name] = "in records, mapped" if records else "contiguous, mapped"
    if not members:
        raise DataError(f"{path} must have a variable of numbers with rows. Received: none")
    return Data(path, "netcdf", members, notes=notes)


def _has_records(header: _Header, variable: _Variable) -> bool:
    if any(not 0 <= d < len(header.dimensions) for d in variable.dimensions):
        raise DataError(f"{variable.name} must have dimensions of its file. Received: others")
    return bool(variable.dimensions) and header.dimensions[variable.dimensions[0]] == 0


def _bytes(header: _Header, variable: _Variable) -> int:
    inner = math.prod(header.dimensions[d] for d in variable.dimensions[1:])
    return inner * np.dtype(variable.dtype).itemsize


def _records(header: _Header, path: Path, variable: _Variable, stride: int, size: int) -> int:
    if header.records >= 0:
        return header.records
    raise DataError(
        f"{path} must say how many records it has. Received: one that is still being written; "
        f"{(size - variable.begin) // max(1, stride)} are there"
    )


def _unpacked(rows: Rows, attributes: dict[str, Any]) -> Rows:
    special = {name: attributes[name] for name in _SPECIAL if name in attributes}
    packs = "scale_factor" in special or "add_offset" in special
    return _Unpacked(rows, special) if special and (packs or rows.dtype.kind == "f") else rows


def _open_netcdf4(path: Path) -> Data:
    data = open_hdf5(path, kind="netcdf")
    with h5py.File(path, "r", locking=False) as file:
        members = {
            name: _unpacked(
                rows,
                {
                    key: np.ravel(file[name].attrs[key])[0]
                    for key in _SPECIAL
                    if key in file[name].attrs
                },
            )
            for name, rows in data.items()
        }
    return Data(path, "netcdf", members, notes=data.notes, close=data.close)
