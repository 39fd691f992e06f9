"""The classic netCDF formats, by netCDF4 and by scipy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
from scipy.io import netcdf_file

from ci.readers.cases.case import Case, Members
from ci.readers.cases.netcdf import ROWS, netcdf, packed

__all__ = ["CASES"]

CLASSIC, OFFSET64, DATA64 = "NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA"


def _of_scipy(path: Path) -> Members:
    with netcdf_file(path, "r", mmap=False, maskandscale=True) as file:
        return {
            name: variable[:] if variable.shape and variable[:].dtype.kind in "fiu" else None
            for name, variable in file.variables.items()
        }


def _scipy(name: str, fill: Callable[[Any], Any], *, version: int = 1, word: str = "") -> Case:
    """A case like those of ``netcdf``, written by scipy."""

    def write(path: Path) -> None:
        with netcdf_file(path, "w", version=version) as file:
            file.createDimension("time", None)  # which scipy wants first
            file.createDimension("row", 24)
            file.createDimension("column", 5)
            fill(file)

    return Case(name, "data.nc", write, _of_scipy, word)


def _kinds(kinds: str) -> Callable[[Any], None]:
    def fill(file: Any) -> None:
        for kind in kinds.split():
            file.createVariable(kind, kind, ("row", "column"))[:] = np.arange(120).reshape(24, 5)

    return fill


def _records(*kinds: str, columns: bool = False, rows: int = 7) -> Callable[[Any], None]:
    """A record variable of each kind."""

    def fill(file: Any) -> None:
        if "time" not in file.dimensions:
            file.createDimension("time", None)
        for number, kind in enumerate(kinds):
            dimensions = ("time", "column") if columns else ("time",)
            values = np.arange(rows * 5).reshape(rows, 5) if columns else np.arange(rows)
            file.createVariable(f"x{number}", kind, dimensions)[:rows] = values + number

    return fill


def _mixed(file: Any) -> None:
    """Record variables between others, and characters among them."""
    _records("i1", "i2", "f8", columns=True)(file)
    file.createVariable("still", "f4", ("row", "column"))[:] = ROWS
    file.createVariable("letters", "S1", ("time", "column"))[:] = np.full((7, 5), b"a")
    file.createVariable("b", "i1", ("time",))[:] = np.arange(7)


def _no_records(file: Any) -> None:
    file.createDimension("time", None)
    file.createVariable("x", "f4", ("time",))
    file.createVariable("y", "f4", ("row", "column"))[:] = ROWS


def _half(file: Any) -> None:
    """A record variable with fewer rows than another, which are filled up."""
    file.createDimension("time", None)
    file.createVariable("x", "f8", ("time",))[:] = np.arange(9)
    file.createVariable("y", "f4", ("time",))[:] = np.arange(4)


def _attributes(file: Any) -> None:
    file.title = "of odd length"
    file.history = ""
    variable = file.createVariable("x", "f4", ("row", "column"))
    variable.units = "K"
    variable.flags = np.array([1, 2, 3], "i1")
    variable[:] = ROWS


def _char(file: Any) -> None:
    file.createVariable("names", "S1", ("row", "column"))[:] = np.full((24, 5), b"a")
    file.createVariable("x", "f4", ("row", "column"))[:] = ROWS


def _scalar(file: Any) -> None:
    file.createVariable("crs", "i4")[...] = 4326
    file.createVariable("x", "f4", ("row", "column"))[:] = ROWS


def _cut(path: Path) -> None:
    with netCDF4.Dataset(path, "w", format=CLASSIC) as file:
        file.createDimension("row", 2400)
        file.createVariable("x", "f4", ("row",))[:] = np.arange(2400)
    path.write_bytes(path.read_bytes()[:4000])


def _streaming(path: Path) -> None:
    """The number of records is left open: it follows from the size of the file."""
    with netCDF4.Dataset(path, "w", format=CLASSIC) as file:
        _records("f4")(file)
    content = bytearray(path.read_bytes())
    content[4:8] = b"\xff\xff\xff\xff"
    path.write_bytes(content)


_FILLED = np.where(np.arange(24) % 6 == 1, -99, np.arange(24))
_SCALED = {"scale_factor": 0.01, "add_offset": 273.15}

CASES = [
    netcdf("all kinds", _kinds("i1 i2 i4 f4 f8"), format=CLASSIC),
    netcdf("all kinds, 64-bit offset", _kinds("i1 i2 i4 f4 f8"), format=OFFSET64),
    netcdf("all kinds, 64-bit data", _kinds("i1 u1 i2 u2 i4 u4 i8 u8 f4 f8"), format=DATA64),
    netcdf("one record variable", _records("f4"), format=CLASSIC),
    netcdf("one record variable of bytes", _records("i1"), format=CLASSIC),
    netcdf("one record variable of shorts", _records("i2", columns=True), format=CLASSIC),
    netcdf("one record variable of bytes, 64-bit data", _records("u1"), format=DATA64),
    netcdf("two record variables of bytes", _records("i1", "i1"), format=CLASSIC),
    netcdf("record variables of five kinds", _records("i1", "i2", "i4", "f4", "f8"),
           format=CLASSIC),
    netcdf("record variables with columns", _records("i1", "i2", "f8", columns=True),
           format=OFFSET64),
    netcdf("record variables between others", _mixed, format=CLASSIC, word="number|S1|char"),
    netcdf("no record yet", _no_records, format=CLASSIC),
    netcdf("a record variable with fewer rows", _half, format=CLASSIC),
    netcdf("attributes of odd lengths", _attributes, format=CLASSIC),
    netcdf("characters, classic", _char, format=CLASSIC, word="number|S1|char"),
    netcdf("a scalar, classic", _scalar, format=CLASSIC),
    netcdf("unicode names", lambda file: file.createVariable("größe", "f4", ("row",)).__setitem__(
        slice(None), np.arange(24)), format=CLASSIC),
    packed("classic, scale and offset", "i2", _SCALED, format=CLASSIC),
    packed("classic, scale, offset and fill", "i2", _SCALED, raw=_FILLED, fill=-99, format=CLASSIC),
    packed("classic, fill of floats", "f4", {}, raw=_FILLED, fill=-99, format=CLASSIC),
    packed("classic, float64 with a fill value", "f8", {}, raw=_FILLED + 1.7e9, fill=-1.0,
           format=CLASSIC),
    packed("classic, several missing_values", "f4", {"missing_value": np.array([-99, 4], "f4")},
           raw=_FILLED, format=CLASSIC),
    packed("classic, integers with a fill value", "i4", {}, raw=_FILLED, fill=-99, format=CLASSIC,
           word="fill|missing"),
    packed("classic, floats never written", "f4", {}, format=CLASSIC,
           raw=np.where(_FILLED < 0, netCDF4.default_fillvals["f4"], _FILLED)),
    packed("classic, _Unsigned", "i1", {"_Unsigned": "true"}, raw=np.arange(24) * 10 - 120,
           format=CLASSIC),
    packed("classic, valid_range", "f4", {"valid_range": np.array([0, 20], "f4")}, format=CLASSIC),
    packed("classic, scale as a string", "i2", {"scale_factor": "0.1"}, format=CLASSIC,
           word="scale_factor"),
    _scipy("by scipy", _kinds("i1 i2 i4 f4 f8")),
    _scipy("by scipy, 64-bit offset", _kinds("i1 i2 i4 f4 f8"), version=2),
    _scipy("by scipy, one record variable of shorts", _records("i2", columns=True)),
    _scipy("by scipy, record variables", _records("i1", "i2", "f8", columns=True)),
    Case("cut short", "data.nc", _cut, word="cut short|whole"),
    Case("the number of records left open", "data.nc", _streaming, word="records"),
]  # fmt: skip
