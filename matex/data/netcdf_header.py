"""Header of a classic netCDF file (CDF-1, CDF-2, CDF-5): its variables and their offsets.

A header of dimensions, attributes and variables with their places, all big-endian, then the values
of the variables without a record dimension, then records in which those with one take turns
(NetCDF Users Guide, Appendix B).
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from matex.errors import DataError

__all__ = ["NetcdfHeader", "Variable"]

_TYPES = {
    1: ">i1", 2: "S1", 3: ">i2", 4: ">i4", 5: ">f4", 6: ">f8",
    7: ">u1", 8: ">u2", 9: ">u4", 10: ">i8", 11: ">u8",
}  # fmt: skip
_DIMENSIONS, _VARIABLES, _ATTRIBUTES = 10, 11, 12


class Variable(NamedTuple):
    name: str
    dimensions: list[int]
    attributes: dict[str, Any]
    dtype: str
    begin: int


class NetcdfHeader:
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
        length = self._number(self._count, self._count_bytes)
        if length < 0:
            raise DataError(
                f"{self._path} must be a whole netCDF file. Received: the length {length} in its "
                "header; copy it again"
            )
        return length

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
            content = self._take(count * dtype.itemsize)
            if dtype.kind == "S":
                found[name] = content.rstrip(b"\0").decode("utf-8", "replace")
            elif count:
                found[name] = np.frombuffer(content, dtype).astype(dtype.newbyteorder("="))
        return found

    def _variable(self) -> Variable:
        name = self._name()
        dimensions = [self._length() for _ in range(self._length())]
        attributes, dtype = self._attributes(), self._type()
        # The size of a record, which is too small a number for large ones, and then negative.
        self._number(self._count, self._count_bytes)
        begin = self._number(self._offset, self._offset_bytes)
        return Variable(name, dimensions, attributes, dtype, begin)
